"""SHOW TRAIN MODEL: the statement that made a version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import StatementError, Subject
from ...options import option
from ...options import parse as parse_options
from ..auto import name_text
from ..base import Statement
from ..chosen import written_out
from ..cursor import Cursor
from ..versions import NamedVersion, read_version
from .train import train_of

if TYPE_CHECKING:
    from ....warehouse.manifest import Manifest
    from ..context import StatementContext

CHOSEN = Subject("WITH", option="chosen")


@dataclass(frozen=True)
class ShowOptions:
    """The options of WITH."""

    chosen: bool = option(False, "write out every option, whoever chose it")


@dataclass(frozen=True)
class ShowTrainModel:
    """The text of the statement, as it was written."""

    named: NamedVersion
    options: ShowOptions

    def run(self, context: StatementContext) -> pa.Table:
        manifest = context.models.find(*self.named).manifest
        return pa.table({"statement": [chosen_of(manifest) if self.options.chosen else manifest.statement]})


def chosen_of(manifest: Manifest) -> str:
    """Return the statement of a version with every choice written out.

    Raises:
        StatementError: TRAIN did not make it.
    """
    if manifest.statement[:5].upper() != "TRAIN":
        what = manifest.statement.split(maxsplit=1)[0] if manifest.statement else "no statement"
        raise StatementError(
            f"{CHOSEN} writes out what TRAIN chose, and version {manifest.version} of {manifest.model} was made by {what}. "
            "ML.OPTIONS shows its options."
        )
    train = train_of(manifest.statement)
    head = f"TRAIN {'OR REPLACE ' if train.plan.replace else ''}MODEL {name_text(train.plan.model)}"
    return written_out(manifest, head, train.given, train.query.passage.text, parses)


def parses(statement: str) -> bool:
    """Return whether a text is a statement."""
    try:
        train_of(statement)
    except StatementError:
        return False
    return True


def parse(cursor: Cursor) -> ShowTrainModel:
    named = read_version(cursor)
    options = cursor.options() if cursor.accept("WITH") else {}
    return ShowTrainModel(named, parse_options(ShowOptions, options, Subject("WITH")))


SHOW_TRAIN_MODEL = Statement(
    "SHOW TRAIN MODEL",
    "SHOW TRAIN MODEL name [VERSION n] [WITH (chosen = true)]",
    "Show the statement that made a version. With `chosen`, every option is written out, whoever chose it: the user, a "
    "default, a rule, TUNE or USING auto. With one worker, that statement makes the same version bit for bit.",
    parse,
)
