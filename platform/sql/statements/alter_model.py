"""ALTER MODEL ... PROMOTE: which version is served by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import Statement
from ..cursor import Cursor

if TYPE_CHECKING:
    from ..context import StatementContext


@dataclass(frozen=True)
class Promote:
    """Serve one version wherever a statement names none, until another one is promoted; None: the newest that is ready."""

    model: str
    version: int | None

    def run(self, context: StatementContext) -> None:
        context.models.promote(self.model, self.version)


def parse(cursor: Cursor) -> Promote:
    model = cursor.identifier("a model name")
    cursor.expect("PROMOTE")
    if cursor.accept("LAST"):
        return Promote(model, None)
    if not cursor.accept("VERSION"):
        raise cursor.expected("VERSION n or LAST")
    return Promote(model, cursor.integer("a version number"))


ALTER_MODEL = Statement(
    "ALTER MODEL",
    "ALTER MODEL name PROMOTE VERSION n | LAST",
    "Serve a version by default, until another one is promoted; LAST: always the newest that is ready.",
    parse,
)
