"""Continuous slots: a number per example, standardised by the statistics of those so far."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...ps.keys import slot_seed
from ..numbers import floats
from ..slot import Slot
from .base import DenseKind, Encoding, Lines
from .types import is_number


def on_logarithms(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return numbers on a logarithmic scale, with their signs."""
    return np.copysign(np.log1p(np.abs(values)), values)


class Continuous(DenseKind):
    """A number per example; a NULL is absent."""

    name = "continuous"
    types = "float and decimal continuous"
    native = "continuous"

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return not role and is_number(type)

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding) -> Lines:
        values = floats(column)
        values = on_logarithms(values) if encoding.logarithmic else values
        return Lines([values], encoding.add(np.array([slot_seed(slot.name)], np.uint64), slot))


CONTINUOUS = Continuous()
