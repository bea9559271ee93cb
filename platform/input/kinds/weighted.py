"""Weighted slots: maps from categories to numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...spark_types import is_category
from ..numbers import floats
from .base import BagKind
from .types import is_weight, lengths_of


class Weighted(BagKind):
    """Any number of categories per example, each with its number; entries with a NULL number are absent."""

    name = "weighted"
    types = ""
    native = "weighted"
    raw = True

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return not role and bool(pa.types.is_map(type)) and is_category(type.key_type) and is_weight(type.item_type)

    def values(self, piece: pa.Array) -> tuple[pa.Array, NDArray[np.float32], NDArray[np.int64]]:
        return flatten_map(piece)


def flatten_map(piece: pa.MapArray) -> tuple[pa.Array, NDArray[np.float32], NDArray[np.int64]]:
    """Return the keys and values (NaN where NULL) of a map column's entries, and how many each row has."""
    entries = pa.ListArray.from_arrays(piece.offsets, pa.StructArray.from_arrays([piece.keys, piece.items], ["k", "v"]))
    if piece.null_count:
        import pyarrow.compute as pc  # takes 40 ms, and few columns need it

        entries = pc.if_else(piece.is_valid(), entries, pa.scalar([], entries.type))
    flat = entries.flatten()
    return flat.field("k"), floats(flat.field("v")), lengths_of(entries)


WEIGHTED = Weighted()
