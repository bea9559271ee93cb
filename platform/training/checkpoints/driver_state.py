"""What the driver of a training knows, as a checkpoint keeps it beside the shards."""

from __future__ import annotations

from typing import NamedTuple

from ...ps.transport.codec import Codec
from ...ps.watermarks import Lines
from ..metrics.metrics import Tally
from ..metrics.validations import Validated
from ..metrics.windows import Seen, Window
from ..row_files.held import KeptPass


class DriverState(NamedTuple):
    """How far a training is.

    Attributes:
        finished: how many batches each turn has, of those that are finished.
        counted: how many batches of each turn the metrics have.
        tallies: of all examples of the first pass that are counted, of each label.
        windows: of the evaluation.
        open: what was seen of windows that were open, as far as the driver knows.
        examples: counted, of all passes.
        seconds: of work so far.
        validated: the passes whose rows held out were scored.
        kept: the rows of the best of them, written beside the version's; None without patience.
    """

    finished: Lines
    counted: Lines
    tallies: tuple[Tally, ...]
    windows: tuple[Window, ...]
    open: tuple[Seen, ...]
    examples: int
    seconds: float
    validated: tuple[Validated, ...] = ()
    kept: KeptPass | None = None


DRIVER_STATE = Codec(DriverState)
