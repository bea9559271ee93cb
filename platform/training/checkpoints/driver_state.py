"""The driver's state in a checkpoint, beside the shards'."""

from __future__ import annotations

from typing import NamedTuple

from ...ps.transport.codec import Codec
from ...ps.watermarks import Lines
from ..metrics.metrics import Tally
from ..metrics.observed import NOTHING, ObservedTallies
from ..metrics.passes import PassTally
from ..metrics.validations import Validated
from ..metrics.windows import Window, WindowPart
from ..row_files.saved import KeptPass


class DriverState(NamedTuple):
    """How far a training is.

    Attributes:
        finished: how many batches each finished turn has.
        counted: how many batches of each turn the metrics have.
        tallies: for each label, of all counted examples of the first pass.
        windows: of the evaluation.
        open: batches seen so far in open windows, as far as the driver knows.
        examples: counted, of all passes.
        seconds: of work so far.
        validated: the passes after which the validation rows were scored.
        kept: the rows of the best of them, written beside the version's; None where the last one is kept.
        later: of the newest pass, all counted examples; None in the first one.
        observed: of batches beside metrics.
    """

    finished: Lines
    counted: Lines
    tallies: tuple[Tally, ...]
    windows: tuple[Window, ...]
    open: tuple[WindowPart, ...]
    examples: int
    seconds: float
    validated: tuple[Validated, ...] = ()
    kept: KeptPass | None = None
    later: PassTally | None = None
    observed: ObservedTallies = NOTHING


DRIVER_STATE = Codec(DriverState)
