"""What the driver of a training knows, as a checkpoint keeps it beside the shards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ps.codec import Codec
from ..ps.watermarks import Turn
from .metrics import Tally
from .windows import Seen, Window

Lines = NDArray[np.int64]
"""int64[n, 3]: pass, split, batches."""


class DriverState(NamedTuple):
    """How far a training is.

    Attributes:
        finished: how many batches each turn has, of those that are finished.
        counted: how many batches of each turn the metrics have.
        tally: of all examples counted.
        windows: of the evaluation.
        open: what was seen of windows that were open, as far as the driver knows.
        examples: counted.
        seconds: of work so far.
    """

    finished: Lines
    counted: Lines
    tally: Tally
    windows: tuple[Window, ...]
    open: tuple[Seen, ...]
    examples: int
    seconds: float


DRIVER_STATE = Codec(DriverState)


def as_lines(batches: Mapping[Turn, int]) -> Lines:
    """Return batches by turn as int64[n, 3]."""
    return np.array([(*turn, number) for turn, number in batches.items()], np.int64).reshape(-1, 3)


def from_lines(lines: Lines) -> dict[Turn, int]:
    """Return what as_lines was given."""
    return {Turn(number, split): batches for number, split, batches in lines.tolist()}
