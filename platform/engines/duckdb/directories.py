"""Rows of a query as files of a folder: INSERT OVERWRITE DIRECTORY."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from ....warehouse.names import part_name
from ...errors import NotAvailableError, StatementError, suggestion
from ...spark_types import quoted
from ..spark_sql.tree import InsertDirectory
from ..targets import Target
from ..waiting import awaited
from .files.paths import literal
from .translation import INSTANT, make_macros, string_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ISO = "%Y-%m-%dT%H:%M:%S.%gZ"
LEFT = re.compile(r"part-.*|_SUCCESS|_(committed|started)_\d+|\..*\.crc")
FLAGS = ("true", "false")
OPTIONS = {"parquet": {}, "csv": {"header": "false", "sep": ",", "nullvalue": ""}, "json": {}}


def write_directory(connection: DuckDBPyConnection, sql: str, statement: InsertDirectory) -> None:
    """Write the rows of a query into a folder, in the place of its files, as Target does.

    Raises:
        StatementError: an option is unknown, or the folder has other files than files of rows.
        ModelError: the folder cannot be written.
    """
    if not statement.path:
        raise StatementError("Expected the folder to write: DIRECTORY 'path', or OPTIONS (path 'path').", statement.position)
    target = Target.of(statement.path, "What INSERT OVERWRITE DIRECTORY writes to", statement.position)
    options = checked(statement)
    if not all(map(is_part, target.names() or ())):
        message = f"{target} is a file, or has more than files of rows. Choose another folder, or empty it."
        raise StatementError(message, statement.position)
    with target.replacing() as draft, target.storing(draft):
        copy(connection, sql, draft / part_name(0, f".{statement.format}"), statement.format, options)


def checked(statement: InsertDirectory) -> dict[str, str]:
    """Return the options of a format, with the statement's values.

    Raises:
        StatementError: it gives an unknown option, or a value that files cannot have.
    """
    known = OPTIONS.get(statement.format)
    if known is None:
        message = f"Files are written as {', '.join(OPTIONS)}, got {statement.format}."
        raise NotAvailableError(message, statement.position)
    given = {("sep" if name == "delimiter" else name): value for name, value in statement.options.items()}
    for name in statement.options:
        if name != "delimiter" and name not in known:
            message = f"There is no option {name!r} of {statement.format} files that are written.{suggestion(name, known)}"
            raise StatementError(message, statement.places.get(name, statement.position))
    for name, value in statement.options.items():
        wanted = "true or false" if name == "header" and value.lower() not in FLAGS else None
        wanted = "one character or more" if name in ("sep", "delimiter") and not value else wanted
        if wanted is not None:
            message = f"Option {name} of {statement.format} files expects {wanted}, got {value!r}."
            raise StatementError(message, statement.places.get(name, statement.position))
    return {**known, **given}


def is_part(name: str) -> bool:
    """Return whether a statement like this one, here or on Spark, leaves a file of this name.

    Other names with _ mark folders of other kinds: an export of a model, a table of the warehouse or of Delta.
    """
    return LEFT.fullmatch(name) is not None


def copy(connection: DuckDBPyConnection, sql: str, path: Path, format: str, options: dict[str, str]) -> None:
    """Run a query and write its rows to a file, with values as Spark writes them."""
    found = connection.sql(sql)
    items = []
    for name, kind in zip(found.columns, found.types, strict=True):
        value: exp.Expr = exp.column(exp.to_identifier(name, quoted=True))
        if format != "parquet" and kind.id == INSTANT:
            value = exp.func("strftime", value, exp.Literal.string(ISO))
        elif format == "csv":
            value = string_of(value, kind)
        items.append(f"{value.sql('duckdb')} AS {quoted(name)}")
    how = {"parquet": "FORMAT parquet, COMPRESSION zstd", "json": "FORMAT json"}.get(format) or csv_format(options)
    made = f"COPY (SELECT {', '.join(items)} FROM ({sql})) TO {literal(str(path))} ({how})"
    make_macros(made, connection)
    awaited(connection, lambda: connection.execute(made))


def csv_format(options: dict[str, str]) -> str:
    sep, null = literal(options["sep"]), literal(options["nullvalue"])
    return f"FORMAT csv, HEADER {options['header']}, DELIM {sep}, NULLSTR {null}, QUOTE '\"', ESCAPE '\\'"
