"""What a worker reports to the driver while it learns."""

from __future__ import annotations

from typing import NamedTuple

from ...input.timing import Timings
from ...ps.watermarks import Lines, Turn
from ..metrics.metrics import Tally
from ..metrics.observed import ObservedTallies
from ..metrics.windows import Window


class TurnReport(NamedTuple):
    """What a worker has learned of a turn since its previous report.

    Attributes:
        pass_number, split: which turn.
        term: in which it was dealt to the worker; reports of an earlier term than the turn's are ignored.
        counted: batches that the metrics have with this report; 0: none are new.
        ended: how many it has, where it is finished; else -1.
        tallies: of each label, how it scored the new ones before it learned from them.
        observed: of the new ones, beside metrics.
    """

    pass_number: int
    split: int
    term: int
    counted: int
    ended: int
    tallies: tuple[Tally, ...]
    observed: ObservedTallies

    @property
    def turn(self) -> Turn:
        """The turn that is reported on."""
        return Turn(self.pass_number, self.split)


class Report(NamedTuple):
    """What a worker has learned since its previous report.

    Attributes:
        turns: that it worked on.
        windows: that it has closed.
        spent: where its time went since it began.
    """

    worker: int
    attempt: int
    turns: tuple[TurnReport, ...]
    windows: tuple[Window, ...]
    spent: Timings


class Terms(NamedTuple):
    """The answer to a report: which of its turns other workers have now, int64[n, 3]: pass, split, term."""

    lines: Lines
