"""MERGE MODEL and IMPORT MODEL: versions of several sites become one, in rounds by files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ...engines.targets import Target
from ..base import Statement
from ..cursor import Cursor
from ..versions import NamedVersion, read_version

if TYPE_CHECKING:
    from ....warehouse.manifest import Manifest
    from ..context import StatementContext

BY, USING = ("examples", "count"), ("state", "weights")


@dataclass(frozen=True)
class MergeModel:
    """Make a version of a model of several that learned on from one version, each from rows of its own."""

    statement: str
    model: str
    sources: tuple[NamedVersion | Path, ...]
    by: str
    using: str

    def run(self, context: StatementContext) -> pa.Table:
        from ...models.merge import merge
        from ...models.merged_rows import MergeRule

        made = merge(context.models, self.model, self.sources, MergeRule(self.by, self.using), self.statement)
        return answer(context, made)


@dataclass(frozen=True)
class ImportModel:
    """Make a version of a model of one that EXPORT MODEL wrote as a folder."""

    statement: str
    model: str
    place: str

    def run(self, context: StatementContext) -> pa.Table:
        from ...models.version_files import import_version

        return answer(context, import_version(context.models, self.model, self.place, self.statement))


def answer(context: StatementContext, made: Manifest) -> pa.Table:
    """Return the row that says what was made."""
    if (why := context.models.passed_over(made.model, made.version)) is not None:
        context.reporter.note(why)
    learned = made.learned
    row = {"model": made.model, "version": made.version, "features": learned.rows, "examples": learned.examples_total}
    return pa.Table.from_pylist([row])


def read_place(cursor: Cursor) -> Target:
    position = cursor.position()
    return Target.of(cursor.string("the folder of an exported version, 'path'"), "An exported version", position)


def read_source(cursor: Cursor) -> NamedVersion | Path:
    return Path(read_place(cursor).place) if cursor.next_kind == "string" else read_version(cursor)


def read_choice(cursor: Cursor, choices: tuple[str, ...]) -> str:
    found = next((one for one in choices if cursor.accept(one)), None)
    if found is None:
        raise cursor.expected(" or ".join(choices), choices)
    return found


def parse_merge(cursor: Cursor) -> MergeModel:
    model = cursor.identifier("a model name")
    cursor.expect("FROM")
    sources = cursor.listed(lambda: read_source(cursor))
    by = read_choice(cursor, BY) if cursor.accept("WEIGHTED", "BY") else "count"
    using = read_choice(cursor, USING) if cursor.accept("USING") else "weights"
    return MergeModel(cursor.statement, model, sources, by, using)


def parse_import(cursor: Cursor) -> ImportModel:
    model = cursor.identifier("a model name")
    cursor.expect("FROM")
    return ImportModel(cursor.statement, model, read_place(cursor).place)


MERGE_MODEL = Statement(
    "MERGE MODEL",
    "MERGE MODEL name FROM {model [VERSION n] | 'path'} [, ...] [WEIGHTED BY count | examples] [USING state | weights]",
    "Make a version of several that were continued from one, each with rows of its own: a model's version, or a folder that "
    "EXPORT MODEL ... FORMAT version wrote. What optimizers add up (the state of ftrl) is added, other weights are averaged, "
    "by how often each source has seen the feature, or by its examples.",
    parse_merge,
)
IMPORT_MODEL = Statement(
    "IMPORT MODEL",
    "IMPORT MODEL name FROM 'path'",
    "Make a version of a model of a folder that EXPORT MODEL ... FORMAT version wrote, here or elsewhere; checksums are "
    "compared.",
    parse_import,
)
