"""CSV files as Spark reads them: no header and all strings, unless the options say otherwise."""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ....errors import StatementError
from ....spark_types import quoted
from .csv_types import INTEGER, REAL, TIME, inferred
from .paths import Listing, literal, opener

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CSV_OPTIONS = {
    "path": None,
    "header": "false",
    "inferschema": "false",
    "sep": ",",
    "delimiter": None,
    "quote": '"',
    "escape": "\\",
    "nullvalue": "",
    "comment": "",
    "multiline": "false",
    "ignoreleadingwhitespace": "false",
    "ignoretrailingwhitespace": "false",
    "encoding": "utf-8",
}
PATTERNS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT"), INTEGER),
    **dict.fromkeys(("FLOAT", "REAL", "DOUBLE", "DECIMAL"), REAL),
    **dict.fromkeys(("DATE", "TIMESTAMPTZ"), TIME),
    "BOOLEAN": "(?i)true|false",
}
BEGINNING = 1 << 18
CHUNK = 1 << 20
TEXTS = ("TEXT", "VARCHAR")


def csv_sql(
    connection: DuckDBPyConnection, found: Listing, options: Mapping[str, str], columns: Mapping[str, str] | None
) -> str:
    """Return DuckDB's query of CSV files.

    Raises:
        StatementError: an option's value is none that it takes, or files cannot be read with these options.
    """
    header = truth(options, "header")
    file, text = beginning(found)
    check_quotes(file, text, options)
    options = {**options, "escape": escape_of(found, options)}
    names = column_names(first_line(file, text, options), header) if columns is None else list(columns)
    rows = reader(found, options, names, header)
    if columns is not None:
        items = [checked(name, kind) for name, kind in columns.items()]
    elif truth(options, "inferschema"):
        items = [
            f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for name, kind in inferred(connection, rows, names).items()
        ]
    else:
        items = [quoted(name) for name in names]
    return f"SELECT {', '.join([*items, *map(quoted, found.partitions)])} FROM {rows}"


def truth(options: Mapping[str, str], name: str) -> bool:
    """Return the value of an option that is true or false."""
    return options[name].lower() == "true"


def reader(found: Listing, options: Mapping[str, str], names: list[str], header: bool) -> str:
    """Return what follows FROM: DuckDB's reader, all columns strings.

    An empty value is NULL, as the one that nullValue names; then one in quotes is an empty string.
    """
    absent = options["nullvalue"]
    if options["encoding"].lower() not in ("utf-8", "utf8"):
        raise StatementError(f"CSV files are read as UTF-8, got the encoding {options['encoding']!r}. Convert them.")
    arguments = {
        "auto_detect": "false",
        "header": str(header).lower(),
        "delim": literal(options.get("delimiter", options["sep"])),
        "quote": literal(options["quote"]),
        "escape": literal(options["escape"]),
        "comment": literal(options["comment"]),
        "nullstr": "''",
        "allow_quoted_nulls": str(not absent).lower(),
        "null_padding": "true",
        "strict_mode": "false",
        "parallel": str(not truth(options, "multiline")).lower(),
        "columns": "{" + ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names) + "}",
    }
    listed = ", ".join(f"{name} = {value}" for name, value in arguments.items())
    rows = f"read_csv({found.array}, {listed}, {found.arguments})"
    trim = trimmed(found, options)
    if not absent and not trim:
        return rows
    values = [f"nullif({trim}({quoted(name)}), {literal(absent)}) AS {quoted(name)}" for name in names]
    return f"(SELECT {', '.join([*values, *map(quoted, found.partitions)])} FROM {rows})"


def trimmed(found: Listing, options: Mapping[str, str]) -> str:
    """Return the function that takes white space away from values; empty for none.

    Raises:
        StatementError: there are values in quotes, which keep theirs.
    """
    leading, trailing = (truth(options, f"ignore{side}whitespace") for side in ("leading", "trailing"))
    quote = options["quote"].encode()
    if (leading or trailing) and quote and any(quote in chunk for file in found.files for chunk in chunks(file, quote)):
        raise StatementError(
            "White space is ignored in files without quotes only: values in quotes keep theirs. Read it, and trim in the query."
        )
    return "trim" if leading and trailing else "ltrim" if leading else "rtrim" if trailing else ""


def beginning(found: Listing) -> tuple[str, str]:
    """Return the first file that is not empty, else the first, and how its text begins.

    Raises:
        StatementError: a file cannot be read as text.
    """
    for file in found.files:
        try:
            with opener(file)(file, "rt", encoding="utf-8-sig", newline="") as stream:
                text = stream.read(BEGINNING)
        except (OSError, UnicodeDecodeError, EOFError) as error:
            raise StatementError(f"{file} cannot be read as CSV: {error}.") from error
        if text.strip():
            return file, text
    return found.files[0], ""


def escape_of(found: Listing, options: Mapping[str, str]) -> str:
    """Return the escape for DuckDB's reader, which drops all, while Spark drops those before a quote or another escape.

    It is the quote itself where the files have none of these, or no quotes: outside of quoted values Spark drops none.

    Raises:
        StatementError: they have escapes of both kinds, as a path of Windows beside an escaped quote; a file cannot be read.
    """
    quote, escape = options["quote"].encode(), options["escape"].encode()
    if not quote or not escape or quote == escape:
        return options["escape"] if quote else ""
    dropped = kept = quotes = 0
    for file in found.files:
        for chunk in chunks(file, escape):
            quotes += chunk.count(quote)
            single = chunk.replace(2 * escape, b"")
            before_quotes = single.count(escape + quote)
            dropped += len(chunk) - len(single) + before_quotes
            kept += single.count(escape) - before_quotes
        if dropped and kept and quotes:
            raise StatementError(
                f"{file} has '{options['escape']}' before quotes or another one, and elsewhere; the embedded engine "
                f"would lose those. Write it with quotes doubled and escape '{options['quote']}', or read it on Spark."
            )
    return options["escape"] if dropped and quotes else options["quote"]


def chunks(file: str, escape: bytes) -> Iterator[bytes]:
    """Yield the bytes of a file in parts that do not end with an escape, but for the last.

    Raises:
        StatementError: the file cannot be read.
    """
    try:
        with opener(file)(file, "rb") as stream:
            while chunk := stream.read(CHUNK):
                while chunk.endswith(escape) and (more := stream.read(1)):
                    chunk += more
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise StatementError(f"{file} cannot be read as CSV: {error}.") from error


def check_quotes(file: str, text: str, options: Mapping[str, str]) -> None:
    """Require that quotes are not doubled in quoted values, unless they are escaped so: Spark takes no such value for quoted.

    Raises:
        StatementError: they are.
    """
    separator = re.escape(options.get("delimiter", options["sep"]))
    quote, escape = re.escape(options["quote"]), re.escape(options["escape"])
    if not quote or quote == escape:
        return
    inside = rf"[^{quote}{escape}]|{escape}." if escape else f"[^{quote}]"
    values = re.finditer(rf"(?:^|{separator}){quote}(?:{inside})*+{quote}({quote})?", text, re.MULTILINE | re.DOTALL)
    if (doubled := next((value for value in values if value[1]), None)) is not None:
        line = text.count("\n", 0, doubled.end()) + 1
        raise StatementError(
            f"{file} doubles quotes inside a quoted value in line {line}; the option escape is '{options['escape']}'. "
            f"Read it with escape '{options['quote']}'."
        )


def first_line(file: str, text: str, options: Mapping[str, str]) -> list[str]:
    """Return the cells of the first line of a file that begins with a text.

    Raises:
        StatementError: there is none, or it cannot be read with the options.
    """
    comment, quote, escape = options["comment"], options["quote"], options["escape"]
    lines = (line for line in io.StringIO(text, "") if line.strip() and not (comment and line.startswith(comment)))
    try:
        cells = csv.reader(
            lines,
            delimiter=options.get("delimiter", options["sep"]),
            quotechar=quote or None,
            escapechar=None if escape == quote else escape or None,
            doublequote=escape == quote,
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
        )
        names = next(cells, [])
    except (csv.Error, TypeError) as error:
        raise StatementError(f"{file} cannot be read as CSV with these options: {error}.") from error
    if not names:
        raise StatementError(
            f"{file} is empty, so that its columns are unknown. Name them: CREATE TEMPORARY VIEW v (a INT, ...)."
        )
    return names


def column_names(cells: list[str], header: bool) -> list[str]:
    """Return the names of columns as Spark makes them: `_c0` where there is no name, and a number after names that repeat."""
    if not header:
        return [f"_c{i}" for i in range(len(cells))]
    count = Counter(cell.lower() for cell in cells)
    named = [f"{cell}{i}" if count[cell.lower()] > 1 else cell for i, cell in enumerate(cells)]
    return [name or f"_c{i}" for i, name in enumerate(named)]


def checked(name: str, kind: str) -> str:
    """Return a column in a type that the statement gives; a text that is none is NULL, as in Spark's permissive mode."""
    column, family = quoted(name), kind.partition("(")[0]
    if family in TEXTS:
        return column
    if family not in PATTERNS:
        raise StatementError(f"A column of a CSV file cannot be {kind}, got it for {name}. Read it as STRING.")
    # The condition also keeps DuckDB from moving the cast into its reader, where a text that fails is an error.
    return f"TRY_CAST(CASE WHEN regexp_full_match({column}, '{PATTERNS[family]}') THEN {column} END AS {kind}) AS {column}"
