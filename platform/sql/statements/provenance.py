"""SHOW PROVENANCE OF MODEL and REPRODUCE MODEL."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...engines.targets import Target
from ...errors import ModelError
from ..base import Statement
from ..cursor import Cursor
from ..versions import NamedVersion, read_version
from .resume import plan_of

if TYPE_CHECKING:
    from ....warehouse.models import Models
    from ....warehouse.version import Version
    from ..context import StatementContext


@dataclass(frozen=True)
class ShowProvenance:
    """What a version was made from."""

    named: NamedVersion

    def run(self, context: StatementContext) -> pa.Table:
        from ...provenance.shown import shown

        with context.models.reading(*self.named) as version:
            return shown(version, context.models)


@dataclass(frozen=True)
class Reproduce:
    """A version that is trained again, and compared."""

    statement: str
    named: NamedVersion
    name: str | None
    whole: bool

    def run(self, context: StatementContext) -> pa.Table:
        from ...provenance.reproduce import reproduce

        models, name = context.models, self.name
        if name is not None and models.numbers(name):
            raise ModelError(f"There is a model {name}, and REPRODUCE ... AS makes a new one. Choose another name, or drop it.")
        keep = None if name is None else functools.partial(kept, models, name, self.statement)
        with models.reading(*self.named) as version:
            plans = functools.partial(plan_of, warehouse=models.warehouse)
            return reproduce(version, plans, context.engine, models, context.reporter, keep, self.whole)


def kept(models: Models, name: str, statement: str, made: Version) -> None:
    """Keep a version that was made again as a model."""
    from ...models.version_files import export_version, import_version

    place = made.folder.parent / "kept"
    export_version(made, Target(str(place)), None, False)
    import_version(models, name, str(place), statement)


def parse_shown(cursor: Cursor) -> ShowProvenance:
    return ShowProvenance(read_version(cursor))


def parse_reproduce(cursor: Cursor) -> Reproduce:
    named = read_version(cursor)
    if whole := cursor.accept("FROM"):
        cursor.expect("THE", "BEGINNING")
    name = cursor.identifier("a model name") if cursor.accept("AS") else None
    return Reproduce(cursor.statement, named, name, whole)


SHOW_PROVENANCE = Statement(
    "SHOW PROVENANCE OF MODEL",
    "SHOW PROVENANCE OF MODEL name [VERSION n]",
    "Show what a version was made from: its statement, ancestors, sources, options and how each was chosen, packages, builds, "
    "processor, and its files, each with a digest where it has one.",
    parse_shown,
)
REPRODUCE = Statement(
    "REPRODUCE MODEL",
    "REPRODUCE MODEL name [VERSION n] [FROM THE BEGINNING] [AS name]",
    "Train a version again, in a folder that is removed afterwards, and compare: files by their bytes, or, where several "
    "workers ran freely, metrics with the spread of three runs. It fails if they differ, and reports first "
    "what has changed since. FROM THE BEGINNING trains the versions that it goes on from again, too. AS keeps what was made "
    "as a model.",
    parse_reproduce,
)
