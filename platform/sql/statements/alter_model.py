"""ALTER MODEL: PROMOTE says which version is served by default, APPLY makes one of another by updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ... import parts
from ...engines.spark_sql.passage import Passage
from ..base import Statement
from ..cursor import Cursor
from ..functions_named import NamedFunction, locating, read_named

if TYPE_CHECKING:
    from ..context import StatementContext


@dataclass(frozen=True)
class Promote:
    """Serve one version wherever a statement names none, until another one is promoted; None: the newest that is ready."""

    model: str
    version: int | None

    def run(self, context: StatementContext) -> None:
        context.models.promote(self.model, self.version)


@dataclass(frozen=True)
class ApplyUpdates:
    """Make a version of the one served by updates, in their order, of the rows for which a condition on the columns of
    ML.WEIGHTS is true."""

    statement: str
    model: str
    updates: Sequence[NamedFunction]
    condition: Passage | None

    def run(self, context: StatementContext) -> pa.Table:
        from ...models.apply import apply

        uses = [named.use for named in self.updates]
        with locating([named.given for named in self.updates], parts.UPDATE):
            made = apply(context.models, context.engine, self.model, uses, self.condition, self.statement)
        child = made.manifest
        if (why := context.models.passed_over(self.model, child.version)) is not None:
            context.reporter.note(why)
        counts = {"features": child.learned.rows, "changed": made.changed, "removed": made.removed}
        return pa.Table.from_pylist([{"model": child.model, "version": child.version, **counts}])


def parse(cursor: Cursor) -> Promote | ApplyUpdates:
    model = cursor.identifier("a model name")
    if cursor.accept("APPLY"):
        updates = cursor.listed(lambda: read_named(cursor, parts.UPDATE))
        where = cursor.remainder("a condition on the columns of ML.WEIGHTS") if cursor.accept("WHERE") else None
        return ApplyUpdates(cursor.statement, model, updates, where)
    if not cursor.accept("PROMOTE"):
        raise cursor.expected("PROMOTE or APPLY", ("PROMOTE", "APPLY"))
    if cursor.accept("LAST"):
        return Promote(model, None)
    if not cursor.accept("VERSION"):
        raise cursor.expected("VERSION n or LAST")
    return Promote(model, cursor.integer("a version number"))


ALTER_MODEL = Statement(
    "ALTER MODEL",
    "ALTER MODEL name PROMOTE VERSION n | LAST\n"
    "ALTER MODEL name APPLY update [(option = value, ...)] [, update [(...)] ...] [WHERE condition]",
    "Serve a version by default, until another one is promoted; LAST: always the newest that is ready. APPLY makes a new "
    "version of the one that is served: updates, in their order, change or remove rows, of those for which a condition "
    "on the columns of ML.WEIGHTS is true: ALTER MODEL ctr APPLY clip (max = 3), forget (slot = campaign).",
    parse,
)
