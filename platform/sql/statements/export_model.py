"""EXPORT MODEL: a version's weights as a warehouse table or as files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...engines.spark_sql.passage import Passage
from ...engines.targets import Target
from ...errors import Position, StatementError, Subject
from ...options import option
from ...options import parse as parse_options
from ..base import Statement
from ..cursor import Cursor
from ..query import Query, own_folder, read_rows
from ..versions import NamedVersion, read_version

SERVING = "serving"
PORTABLE = (SERVING, "onnx")
VERSION = "version"

if TYPE_CHECKING:
    from ..context import StatementContext

SIDES = ("ITEMS", "QUERY")
GRAMMAR = """\
EXPORT MODEL name [VERSION n] TO TABLE table [DELTA FROM VERSION k] [WITH (replace = false, format = 'parquet')]
EXPORT MODEL name [VERSION n] TO 'path' FORMAT parquet | csv | json [WITH (replace = false)]
EXPORT MODEL name [VERSION n] TO 'path' FORMAT {serving [DELTA FROM VERSION k] | onnx}
  [WITH (replace = false, fp16 = false, parity = 'SELECT ...', interval = 0.9)]
EXPORT MODEL name [VERSION n] TO 'path' FORMAT version [DELTA FROM VERSION k] [WITH (replace = false)]
EXPORT MODEL name [VERSION n] VECTORS OF ITEMS | QUERY TABLE t | (query)
  TO TABLE table [DELTA FROM TABLE earlier] [WITH (...)] | TO 'path' FORMAT parquet | csv | json [WITH (...)]"""


@dataclass(frozen=True)
class ExportOptions:
    """The options of WITH for tables."""

    replace: bool = option(False, "replace a table of that name")
    format: str = option("parquet", "format of the table: on Spark any that the session has")


@dataclass(frozen=True)
class FileOptions:
    """The options of WITH for files."""

    replace: bool = option(False, "replace an export of another model or format, or of vectors by one of rows")


@dataclass(frozen=True)
class PortableOptions:
    """The options of WITH for serving and onnx."""

    replace: bool = option(False, "replace an export of another model or format")
    fp16: bool = option(False, "keep the floats of rows as 16 bits, which halves the file and changes predictions a little")
    parity: str = option("", "a query of rows to export with their predictions; '' for the training's query")
    interval: float | None = option(
        None,
        "of numbers: answer the bounds between which this share of labels lie, too, as INTERVAL of ML.PREDICT",
        minimum=0,
        maximum=1,
        open_minimum=True,
        open_maximum=True,
    )


@dataclass(frozen=True)
class ExportTable:
    """Write the columns of ML.WEIGHTS to a warehouse table; dense parameters stay in the version's folder, which a note names.

    With `base`, only rows that differ from that version's, and tombstones of removed rows, by a column `deleted`.
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
    target: Target
    format: str
    replace: bool

    def run(self, context: StatementContext) -> pa.Table:
        from ...models.exports import DENSE, export_files

        with context.models.reading(*self.named) as version:
            rows = export_files(version, context.engine, self.target, self.format, self.replace)
        dense = self.target.below(DENSE) if version.dense.exists() else None
        return answer(version.manifest.model, version.number, rows, str(self.target), dense)


@dataclass(frozen=True)
class ExportVectors:
    """Write the vectors of items or of queries; `to` says where, `base` what table of them was written before."""

    to: ExportTable | ExportFiles
    side: str
    rows: Query
    base: Passage | None

    def run(self, context: StatementContext) -> pa.Table:
        from ...models.exports import VECTORS, writing
        from ...models.vectors import vectors

        to, base = self.to, None if self.base is None else self.base.text
        with (
            context.models.reading(*to.named) as version,
            self.rows.expanded(context) as passage,
            own_folder(context) as folder,
            passage.locating(),
            vectors(version, context.engine, passage.text, self.side, base, folder, context.reporter) as query,
        ):
            if isinstance(to, ExportTable):
                target, format = to.table.text, to.options.format
                rows = context.engine.write_table(target, query, to.options.replace, format)
            else:
                target = str(to.target)
                with writing(version, to.target, VECTORS, to.format, to.replace) as (draft, write):
                    rows = context.engine.write_files(query, draft, f".{to.format}", write)
            return answer(version.manifest.model, version.number, rows, target, None)


@dataclass(frozen=True)
class ExportPortable:
    """Write files with which programs without xpsql score; with `base`, only rows that differ from that version's."""

    named: NamedVersion
    target: Target
    format: str
    options: PortableOptions
    base: int | None
    at: Position

    def run(self, context: StatementContext) -> pa.Table:
        from ...portable.export import FORMAT, export_portable

        with ExitStack() as stack:
            version = stack.enter_context(context.models.reading(*self.named))
            base = None if self.base is None else stack.enter_context(context.models.reading(self.named[0], self.base))
            given, what = self.options, (version, context.engine, self.target, self.format)
            try:
                rows = export_portable(*what, given.fp16, given.parity, given.replace, base, given.interval)
            except StatementError as error:
                raise error if error.subject != FORMAT else error.at(self.at) from error
        return answer(version.manifest.model, version.number, rows, str(self.target), None)


@dataclass(frozen=True)
class ExportVersion:
    """Write a version as a folder that IMPORT MODEL and MERGE MODEL read; with `base`, only rows that differ from its."""

    named: NamedVersion
    target: Target
    replace: bool
    base: int | None

    def run(self, context: StatementContext) -> pa.Table:
        from ...models.version_files import export_version

        with ExitStack() as stack:
            version = stack.enter_context(context.models.reading(*self.named))
            base = None if self.base is None else stack.enter_context(context.models.reading(self.named[0], self.base))
            rows = export_version(version, self.target, base, self.replace)
        return answer(version.manifest.model, version.number, rows, str(self.target), None)


def answer(model: str, version: int, rows: int, target: str, dense: str | None) -> pa.Table:
    """Return the row that says what was written where."""
    row = {"model": model, "version": version, "rows": rows, "target": target, "dense": dense}
    text = ("model", "target", "dense")
    return pa.Table.from_pylist([row], pa.schema([(name, pa.string() if name in text else pa.int64()) for name in row]))


def parse(cursor: Cursor) -> ExportTable | ExportFiles | ExportPortable | ExportVersion | ExportVectors:
    named = read_version(cursor)
    if cursor.accept("VECTORS"):
        return parse_vectors(cursor, named)
    cursor.expect("TO")
    if not cursor.accept("TABLE"):
        return parse_folder(cursor, named)
    table = cursor.table()
    base = cursor.integer("a version number") if cursor.accept("DELTA", "FROM", "VERSION") else None
    return parse_table(cursor, named, table, base)


def parse_vectors(cursor: Cursor, named: NamedVersion) -> ExportVectors:
    cursor.expect("OF")
    side = next((side for side in SIDES if cursor.accept(side)), None)
    if side is None:
        raise cursor.expected("whose vectors", SIDES)
    rows = read_rows(cursor)
    cursor.expect("TO")
    if not cursor.accept("TABLE"):
        return ExportVectors(parse_files(cursor, named), side, rows, None)
    table = cursor.table()
    base = cursor.table() if cursor.accept("DELTA", "FROM", "TABLE") else None
    return ExportVectors(parse_table(cursor, named, table, None), side, rows, base)


def parse_table(cursor: Cursor, named: NamedVersion, table: Passage, base: int | None) -> ExportTable:
    given = cursor.options() if cursor.accept("WITH") else {}
    return ExportTable(named, table, parse_options(ExportOptions, given, Subject("WITH")), base)


def parse_folder(cursor: Cursor, named: NamedVersion) -> ExportFiles | ExportPortable | ExportVersion:
    from ...models.exports import FORMATS

    target, format, at = read_folder(cursor, [*(format_.name for format_ in FORMATS), *PORTABLE, VERSION])
    position = cursor.position()
    base = cursor.integer("a version number") if cursor.accept("DELTA", "FROM", "VERSION") else None
    if base is not None and format not in (SERVING, VERSION):
        raise StatementError("DELTA FROM VERSION is for FORMAT serving or version, or TO TABLE table.", position)
    given = cursor.options() if cursor.accept("WITH") else {}
    if format == VERSION:
        return ExportVersion(named, target, parse_options(FileOptions, given, Subject("WITH")).replace, base)
    if format in PORTABLE:
        return ExportPortable(named, target, format, parse_options(PortableOptions, given, Subject("WITH")), base, at)
    return ExportFiles(named, target, format, parse_options(FileOptions, given, Subject("WITH")).replace)


def parse_files(cursor: Cursor, named: NamedVersion) -> ExportFiles:
    from ...models.exports import FORMATS

    target, format, _ = read_folder(cursor, [format_.name for format_ in FORMATS])
    given = cursor.options() if cursor.accept("WITH") else {}
    return ExportFiles(named, target, format, parse_options(FileOptions, given, Subject("WITH")).replace)


def read_folder(cursor: Cursor, names: Sequence[str]) -> tuple[Target, str, Position]:
    """Return a folder, and the format of what is written there, one of some names, with its place."""
    position = cursor.position()
    target = Target.of(cursor.string("TABLE name or 'path'"), "What EXPORT MODEL writes to", position)
    if cursor.peek("DELTA"):
        message = (
            "DELTA is written to a table, EXPORT MODEL name TO TABLE table DELTA FROM VERSION k, or TO 'path' FORMAT serving "
            "DELTA FROM VERSION k."
        )
        raise StatementError(message, cursor.position())
    if not cursor.accept("FORMAT"):
        raise cursor.expected("FORMAT and a format", names)
    if not any(cursor.peek(name) for name in names):
        raise cursor.expected("a format", names)
    at = cursor.position()
    return target, cursor.identifier("a format").lower(), at


EXPORT_MODEL = Statement(
    "EXPORT MODEL",
    GRAMMAR,
    "Write a version's weights to a warehouse table or to files, with the columns of ML.WEIGHTS; or the vectors of items or of "
    "queries, by the first column of a query: DELTA FROM TABLE writes only those that differ from an earlier table. "
    "FORMAT serving and onnx write a folder that programs without xpsql score with.",
    parse,
)
