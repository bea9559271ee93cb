"""Multi-valued slots: arrays of categories, whose order and length mean nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...spark_types import is_category
from .base import BagKind
from .types import is_list, lengths_of


class Multi(BagKind):
    """Any number of categories per example; a NULL array has none."""

    name = "multi-valued"
    types = "arrays of categories and map<string, float> multi-valued"
    native = "multi"

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return not role and is_list(type) and is_category(type.value_type)

    def values(self, piece: pa.Array) -> tuple[pa.Array, NDArray[np.float32], NDArray[np.int64]]:
        values = piece.flatten()
        return values, np.ones(len(values), np.float32), lengths_of(piece)


MULTI = Multi()
