"""The contracts of SQL functions that xpsql adds to every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from ..errors import Position, StatementError


class Function(NamedTuple):
    """One function, as the tuple FUNCTIONS holds it: a name for a piece of plain Spark SQL.

    Attributes:
        name: as it is called, in lower case.
        signature: its arguments and result: "(slot STRING, value) -> BIGINT".
        help: one line; says what NULL gives.
        least: the least number of arguments.
        most: the greatest number of arguments, None for any.
        expand: Spark SQL of a call, from names that stand for its arguments, and numbers where these are written as such. An
            argument may be any expression, so a name is used only where one may stand without parentheses: as an argument, or
            inside CAST.
    """

    name: str
    signature: str
    help: str
    least: int
    most: int | None
    expand: Callable[[Sequence[str]], str]

    def check(self, given: int, position: Position | None) -> None:
        """Refuse a call with a wrong number of arguments.

        Raises:
            StatementError: the message has the signature.
        """
        if given < self.least or (self.most is not None and given > self.most):
            raise StatementError(f"{self.name} takes {self.signature}, got {given} arguments.", position)


class Computed(NamedTuple):
    """A function that plain SQL of an engine lacks, computed on Arrow arrays; what FUNCTIONS and rewritten queries call.

    Attributes:
        name: its name in an engine, "xpsql_auc".
        compute: arrays of one length, one per argument, to an array of that length; NULLs are its own affair. It is called
            from several threads.
        result: the result's type.
    """

    name: str
    compute: Callable[[Sequence[pa.Array]], pa.Array]
    result: pa.DataType
