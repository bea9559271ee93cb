"""SHRINK MODEL: a new version without some of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...engines.spark_sql.passage import Passage
from ..base import Statement
from ..cursor import Cursor

if TYPE_CHECKING:
    from ..context import StatementContext


@dataclass(frozen=True)
class ShrinkModel:
    """Remove (prune) the rows for which a condition on the columns of ML.WEIGHTS is true, such as rows of features that are too
    rare:

        SHRINK MODEL ctr WHERE updates < 3 AND slot <> '(intercept)'

    Rows for which it is false or NULL stay, with their optimizer state, so the new version can be continued.
    """

    statement: str
    model: str
    condition: Passage

    def run(self, context: StatementContext) -> pa.Table:
        from ...models.shrink import shrink

        with self.condition.locating():
            parent, child = shrink(context.models, context.engine, self.model, self.condition.text, self.statement)
        if (why := context.models.passed_over(self.model, child.version)) is not None:
            context.reporter.note(why)
        rows = child.learned.rows
        row = {"model": child.model, "version": child.version, "features": rows, "removed": parent.learned.rows - rows}
        return pa.Table.from_pylist([row])


def parse(cursor: Cursor) -> ShrinkModel:
    model = cursor.identifier("a model name")
    cursor.expect("WHERE")
    return ShrinkModel(cursor.statement, model, cursor.remainder("a condition on the columns of ML.WEIGHTS"))


SHRINK_MODEL = Statement(
    "SHRINK MODEL",
    "SHRINK MODEL name WHERE condition",
    "Make a new version without the rows that match, by the columns of ML.WEIGHTS: SHRINK MODEL ctr WHERE updates < 3.",
    parse,
)
