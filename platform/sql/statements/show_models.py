"""SHOW MODELS: the models of the warehouse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...models.listings import models_table
from ..base import Statement
from ..cursor import Cursor

if TYPE_CHECKING:
    from ..context import StatementContext


@dataclass(frozen=True)
class ShowModels:
    """The models whose names match a pattern."""

    like: str | None

    def run(self, context: StatementContext) -> pa.Table:
        return models_table(context.models, self.like)


def parse(cursor: Cursor) -> ShowModels:
    return ShowModels(cursor.string("a pattern such as 'click%'") if cursor.accept("LIKE") else None)


SHOW_MODELS = Statement(
    "SHOW MODELS",
    "SHOW MODELS [LIKE 'pattern']",
    "List the models: the version served, the examples it and those before it have learned from, and trainings under way or "
    "interrupted.",
    parse,
)
