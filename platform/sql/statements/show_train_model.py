"""SHOW TRAIN MODEL: the statement that made a version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Statement
from ..cursor import Cursor
from ..versions import NamedVersion, read_version

if TYPE_CHECKING:
    from ..context import StatementContext


@dataclass(frozen=True)
class ShowTrainModel:
    """The text of the statement, as it was written."""

    named: NamedVersion

    def run(self, context: StatementContext) -> pa.Table:
        return pa.table({"statement": [context.models.find(*self.named).manifest.statement]})


def parse(cursor: Cursor) -> ShowTrainModel:
    return ShowTrainModel(read_version(cursor))


SHOW_TRAIN_MODEL = Statement(
    "SHOW TRAIN MODEL",
    "SHOW TRAIN MODEL name [VERSION n]",
    "Show the statement that made a version.",
    parse,
)
