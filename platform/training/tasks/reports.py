"""What a worker reports to the driver while it learns."""

from __future__ import annotations

from typing import NamedTuple

from ...input.timing import Spent
from ...ps.watermarks import Lines
from ..metrics.passes import PassTally
from ..metrics.windows import Window


class Report(NamedTuple):
    """What a worker has learned since its report before.

    Attributes:
        tallies: how it scored the batches of each pass, before it learned from them.
        counted: batches that the metrics have with this report, of the turns that it worked on.
        ended: batches of the turns that it has finished.
        windows: that it has closed.
        spent: where its time went since it began.
    """

    worker: int
    attempt: int
    tallies: tuple[PassTally, ...]
    counted: Lines
    ended: Lines
    windows: tuple[Window, ...]
    spent: Spent
