"""SHOW VERSIONS OF MODEL: every version, also failed and held ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...models.listings import versions_table
from ..base import Statement
from ..cursor import Cursor

if TYPE_CHECKING:
    from ..context import StatementContext


@dataclass(frozen=True)
class ShowVersions:
    """The versions of a model, oldest first."""

    model: str

    def run(self, context: StatementContext) -> pa.Table:
        return versions_table(context.models.versions(self.model), with_model=False)


def parse(cursor: Cursor) -> ShowVersions:
    return ShowVersions(cursor.identifier("a model name"))


SHOW_VERSIONS = Statement(
    "SHOW VERSIONS OF MODEL",
    "SHOW VERSIONS OF MODEL name",
    "List a model's versions: status, metrics and errors.",
    parse,
)
