"""CSV files as Spark reads them: no header and all strings, unless the options say otherwise."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import StatementError
from .files import Listing, literal
from .types import quoted

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
    "encoding": "utf-8",
}
INTEGER = r"[+-]?[0-9]+"
REAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|NaN|[+-]?Inf(inity)?"
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([ T][0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
# A column's type is the first whose text all its values have: (DuckDB type, text, parse as)
KINDS = (
    ("INTEGER", INTEGER),
    ("BIGINT", INTEGER),
    ("DECIMAL(38,0)", INTEGER),
    ("DOUBLE", REAL),
    ("DATE", DATE),
    ("TIMESTAMPTZ", TIME),
    ("BOOLEAN", "(?i)true|false"),
)
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")


def csv_sql(
    connection: DuckDBPyConnection, found: Listing, options: Mapping[str, str], columns: Mapping[str, str] | None
) -> str:
    """Return DuckDB's query of CSV files.

    Raises:
        StatementError: an option's value is none that it takes, or the first file cannot be read.
    """
    header = truth(options, "header")
    if columns is None:
        names = column_names(first_line(found, options), header)
        kinds = dict.fromkeys(names, "VARCHAR")
    else:
        names, kinds = list(columns), dict(columns)
    rows = reader(found, options, names, header)
    if columns is None and truth(options, "inferschema"):
        kinds = inferred(connection, rows, names)
    items = [as_kind(quoted(name), kind) for name, kind in kinds.items()] + [quoted(name) for name in found.partitions]
    return f"SELECT {', '.join(items)} FROM {rows}"


def truth(options: Mapping[str, str], name: str) -> bool:
    """Return the value of an option that is true or false."""
    if options[name].lower() not in ("true", "false"):
        raise StatementError(f"The option {name} takes true or false, got {options[name]!r}.")
    return options[name].lower() == "true"


def reader(found: Listing, options: Mapping[str, str], names: list[str], header: bool) -> str:
    """Return the call of DuckDB's reader, all columns strings."""
    if options["encoding"].lower() not in ("utf-8", "utf8"):
        raise StatementError(f"CSV files are read as UTF-8, got the encoding {options['encoding']!r}. Convert them.")
    arguments = {
        "auto_detect": "false",
        "header": str(header).lower(),
        "delim": literal(options.get("delimiter", options["sep"])),
        "quote": literal(options["quote"]),
        "escape": literal(options["escape"]),
        "comment": literal(options["comment"]),
        "nullstr": literal(options["nullvalue"]),
        "null_padding": "true",
        "strict_mode": "false",
        "parallel": str(not truth(options, "multiline")).lower(),
        "columns": "{" + ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names) + "}",
    }
    listed = ", ".join(f"{name} = {value}" for name, value in arguments.items())
    return f"read_csv({found.array}, {listed}, {found.arguments})"


def first_line(found: Listing, options: Mapping[str, str]) -> list[str]:
    """Return the cells of the first line of the first file that is not empty.

    Raises:
        StatementError: the file cannot be read as text.
    """
    comment = options["comment"]
    opened = gzip.open if found.first.suffix == ".gz" else open
    try:
        with opened(found.first, "rt", encoding="utf-8-sig", newline="") as file:
            lines = (line for line in file if line.strip() and not (comment and line.startswith(comment)))
            cells = csv.reader(
                lines,
                delimiter=options.get("delimiter", options["sep"]),
                quotechar=options["quote"] or None,
                escapechar=options["escape"] or None,
                quoting=csv.QUOTE_MINIMAL if options["quote"] else csv.QUOTE_NONE,
            )
            return next(cells, [])
    except (OSError, UnicodeDecodeError, EOFError, csv.Error, TypeError) as error:
        raise StatementError(f"{found.first} cannot be read as CSV with these options: {error}.") from error


def column_names(cells: list[str], header: bool) -> list[str]:
    """Return the names of columns as Spark makes them: `_c0` where there is no name, and a number after names that repeat."""
    if not header:
        return [f"_c{i}" for i in range(len(cells))]
    count = Counter(cell.lower() for cell in cells)
    named = [f"{cell}{i}" if count[cell.lower()] > 1 else cell for i, cell in enumerate(cells)]
    return [name or f"_c{i}" for i, name in enumerate(named)]


def inferred(connection: DuckDBPyConnection, rows: str, names: list[str]) -> dict[str, str]:
    """Return the type of each column that all its values have, as Spark's inferSchema finds it."""
    tests = [
        f"bool_and(regexp_full_match({quoted(name)}, '{pattern}') AND TRY_CAST({quoted(name)} AS {kind}) IS NOT NULL)"
        for name in names
        for kind, pattern in KINDS
    ]
    found = connection.execute(f"SELECT {', '.join(tests)} FROM {rows}").fetchone() if names else ()
    assert found is not None  # an aggregate has one row
    kinds = {}
    for i, name in enumerate(names):
        fits = found[i * len(KINDS) : (i + 1) * len(KINDS)]
        kinds[name] = next((kind for (kind, _), fit in zip(KINDS, fits, strict=True) if fit), "VARCHAR")
    return kinds


def as_kind(name: str, kind: str) -> str:
    """Return a column cast to a type; a value that has another is NULL, as in Spark's permissive mode."""
    if kind == "VARCHAR":
        return name
    text = f"CASE WHEN regexp_full_match({name}, '{INTEGER}') THEN {name} END" if kind in WHOLE else name
    return f"TRY_CAST({text} AS {kind}) AS {name}"
