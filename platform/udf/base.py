"""The contract of SQL functions that xpsql adds to every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa


class Function(NamedTuple):
    """One function, as the tuple FUNCTIONS holds it: either rewritten into plain Spark SQL or computed on Arrow arrays.

    Attributes:
        name: as it is called, in lower case.
        signature: its arguments and result: "(slot STRING, value) -> BIGINT".
        help: one line; says what NULL gives.
        least: the least number of arguments.
        most: the greatest number of arguments, None for any.
        sql: Spark SQL of a call, from the Spark SQL of its arguments; None where it is computed.
        compute: arrays of one length, one per argument, to an array of that length; None where it is rewritten. NULLs are
            its own affair. It is called from several threads.
        result: the computed array's type.
    """

    name: str
    signature: str
    help: str
    least: int
    most: int | None
    sql: Callable[[Sequence[str]], str] | None = None
    compute: Callable[[Sequence[pa.Array]], pa.Array] | None = None
    result: pa.DataType | None = None
