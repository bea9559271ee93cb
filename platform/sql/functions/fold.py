"""ML.FOLD: what a function says of all rows of a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ... import parts
from ..base import Call, TableFunction
from ..cursor import Cursor
from ..functions_named import NamedFunction, locating, read_named

if TYPE_CHECKING:
    from ..context import StatementContext


def read(cursor: Cursor) -> NamedFunction:
    return read_named(cursor, parts.FOLD)


def run(context: StatementContext, call: Call) -> pa.Table:
    from ...models.fold import fold

    named: NamedFunction = call.arguments[0]
    with locating([named.given], parts.FOLD):
        return fold(call.read(context), named.use)


FOLD = TableFunction(
    "FOLD",
    "ML.FOLD(MODEL name [VERSION n], fold [(option = value, ...)])",
    "What a fold says of all rows of a version, where they lie: `norm (by = slot)`, `quantiles (at = (0.5, 0.99))`. The fold "
    "is one that SHOW FOLDS lists, or of a file of yours: `'mine.py:spread' (bins = 7)`.",
    "none",
    ("a fold",),
    run,
    read=read,
)
