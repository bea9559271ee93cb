"""Kinds of slots that are not the product's, over types that it has kinds for: the remainders of integers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from xpsql.platform.input.kinds.base import Encoding, ScalarKind
from xpsql.platform.input.kinds.multi import Multi
from xpsql.platform.input.slot import Slot
from xpsql.platform.input.vocabulary import ABSENT, Codes, keys_of

DIVISOR = 3


class Remainder(ScalarKind):
    """One feature an example: the remainder of an integer, or of a string's length."""

    name = "remainder"
    types = "integers and strings are remainders"

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return not role and bool(pa.types.is_integer(type) or pa.types.is_string(type))

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding, out: Codes) -> None:
        first = encoding.add(keys_of(pa.array(np.arange(DIVISOR)), slot), slot)
        numbers = [len(one) if isinstance(one, str) else one for one in column.to_pylist()]
        out[:] = [ABSENT if one is None else first + one % DIVISOR for one in numbers]


class Remainders(Multi):
    """Any number of them, by the product's own class of arrays: what that class declares of itself is not said of this one."""

    name = "remainders"
    types = ""

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return not role and bool(pa.types.is_list(type) and pa.types.is_integer(type.value_type))

    def values(self, piece: pa.Array) -> tuple[pa.Array, NDArray[np.float32], NDArray[np.int64]]:
        values, weights, lengths = super().values(piece)
        return pa.array([None if one is None else one % DIVISOR for one in values.to_pylist()], pa.int64()), weights, lengths


REMAINDER, REMAINDERS = Remainder(), Remainders()
