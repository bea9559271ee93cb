"""EXPORT MODEL: a version's weights as a warehouse table or as files."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ...engines.spark_sql.passage import Passage
from ...errors import StatementError, Subject
from ...local import local_path
from ...options import option
from ...options import parse as parse_options
from ..base import Statement
from ..cursor import Cursor
from ..versions import NamedVersion, read_version

if TYPE_CHECKING:
    from ..context import StatementContext

GRAMMAR = """\
EXPORT MODEL name [VERSION n] TO TABLE table [DELTA FROM VERSION k] [WITH (replace = false, format = 'parquet')]
EXPORT MODEL name [VERSION n] TO 'path' FORMAT parquet | csv | json [WITH (replace = false)]"""


@dataclass(frozen=True)
class ExportOptions:
    """The options of WITH for tables."""

    replace: bool = option(False, "replace a table of that name")
    format: str = option("parquet", "format of the table: on Spark any that the session has")


@dataclass(frozen=True)
class FileOptions:
    """The options of WITH for files."""

    replace: bool = option(False, "replace an export of another format")


@dataclass(frozen=True)
class ExportTable:
    """Write the columns of ML.WEIGHTS to a warehouse table; dense parameters stay in the version's folder, which is told.

    With `base`, only the rows that differ from that version's, and tombstones of those that went, by a column `deleted`.
    """

    named: NamedVersion
    table: Passage
    options: ExportOptions
    base: int | None

    def run(self, context: StatementContext) -> pa.Table:
        from ...models.deltas import export_delta
        from ...models.exports import export_table

        chosen, table = self.options, self.table.text
        with ExitStack() as stack:
            version = stack.enter_context(context.models.reading(*self.named))
            base = None if self.base is None else stack.enter_context(context.models.reading(self.named[0], self.base))
            stack.enter_context(self.table.locating())
            if base is None:
                rows = export_table(version, context.engine, table, chosen.replace, chosen.format)
            else:
                rows = export_delta(version, base, context.engine, table, chosen.replace, chosen.format)
        dense = str(version.dense) if version.dense.exists() else None
        return answer(version.manifest.model, version.number, rows, table, dense)


@dataclass(frozen=True)
class ExportFiles:
    """Write the columns of ML.WEIGHTS to files in a folder, with the manifest and the dense parameters beside them."""

    named: NamedVersion
    folder: Path
    format: str
    replace: bool

    def run(self, context: StatementContext) -> pa.Table:
        from ...models.exports import DENSE, export_files

        with context.models.reading(*self.named) as version:
            rows = export_files(version, context.engine, self.folder, self.format, self.replace)
        dense = str(self.folder / DENSE) if version.dense.exists() else None
        return answer(version.manifest.model, version.number, rows, str(self.folder), dense)


def answer(model: str, version: int, rows: int, target: str, dense: str | None) -> pa.Table:
    """Return the row that says what was written where."""
    row = {"model": model, "version": version, "rows": rows, "target": target, "dense": dense}
    text = ("model", "target", "dense")
    return pa.Table.from_pylist([row], pa.schema([(name, pa.string() if name in text else pa.int64()) for name in row]))


def parse(cursor: Cursor) -> ExportTable | ExportFiles:
    named = read_version(cursor)
    cursor.expect("TO")
    return parse_table(cursor, named) if cursor.accept("TABLE") else parse_files(cursor, named)


def parse_table(cursor: Cursor, named: NamedVersion) -> ExportTable:
    table = cursor.table()
    base = cursor.integer("a version number") if cursor.accept("DELTA", "FROM", "VERSION") else None
    given = cursor.options() if cursor.accept("WITH") else {}
    return ExportTable(named, table, parse_options(ExportOptions, given, Subject("WITH")), base)


def parse_files(cursor: Cursor, named: NamedVersion) -> ExportFiles:
    from ...models.exports import FORMATS

    position = cursor.position()
    folder = local_path(cursor.string("TABLE name or 'path'"), "What EXPORT MODEL writes to", position)
    if cursor.peek("DELTA"):
        message = "DELTA is written to a table, not to files: EXPORT MODEL name TO TABLE table DELTA FROM VERSION k."
        raise StatementError(message, cursor.position())
    cursor.expect("FORMAT")
    names = [format_.name for format_ in FORMATS]
    if not any(cursor.peek(name) for name in names):
        raise cursor.expected("a format", names)
    format = cursor.identifier("a format").lower()
    given = parse_options(FileOptions, cursor.options() if cursor.accept("WITH") else {}, Subject("WITH"))
    return ExportFiles(named, folder, format, given.replace)


EXPORT_MODEL = Statement(
    "EXPORT MODEL",
    GRAMMAR,
    "Write a version's weights to a warehouse table or to files, with the columns of ML.WEIGHTS.",
    parse,
)
