"""CSV files as Spark reads them: no header and all strings, unless the options say otherwise."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ....errors import StatementError
from ....spark_types import quoted
from ....udf.csv_text import cells_of, rows_of
from ..translation import make_macros
from .csv_syntax import Syntax, SyntaxScan, whole_lines
from .csv_types import cast_of, inferred
from .paths import Listing, literal

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
ENCODINGS = {**dict.fromkeys(("utf-8", "utf8"), "utf-8"), **dict.fromkeys(("iso-8859-1", "latin-1", "latin1"), "latin-1")}
WHITE = "".join(map(chr, range(1, 33)))
FIRST_LINES = 1000
NOWHERE = "\U0010ffff"
"""A separator that no text has, so that DuckDB reads whole lines."""


class Dialect(NamedTuple):
    """How cells stand in a text, by the options.

    Attributes:
        encoding: Python's and DuckDB's name of it.
    """

    separator: str
    quote: str
    escape: str
    comment: str
    leading: bool
    trailing: bool
    multiline: bool
    header: bool
    encoding: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Dialect:
        """Return the dialect of options.

        Raises:
            StatementError: one has a value that it does not take.
        """
        for name in ("quote", "escape", "comment"):
            if len(options[name].encode()) > 1:
                raise StatementError(f"The option {name} takes one character of ASCII or none, got {options[name]!r}.")
        encoding = ENCODINGS.get(options["encoding"].lower())
        if encoding is None:
            raise StatementError(
                f"CSV files are read as UTF-8 or ISO-8859-1, got the encoding {options['encoding']!r}. Convert them: "
                f"iconv -f {options['encoding']} -t UTF-8 old.csv > new.csv."
            )
        separator = options.get("delimiter", options["sep"])
        if not separator:
            raise StatementError("The option sep takes one character or more, got ''.")
        flags = ("ignoreleadingwhitespace", "ignoretrailingwhitespace", "multiline", "header")
        leading, trailing, multiline, header = (truth(options, name) for name in flags)
        quote = options["quote"]
        escape = options["escape"] if quote else ""
        return cls(separator, quote, escape, options["comment"], leading, trailing, multiline, header, encoding)


def csv_sql(
    connection: DuckDBPyConnection, found: Listing, options: Mapping[str, str], columns: Mapping[str, str] | None
) -> str:
    """Return DuckDB's query of CSV files.

    Raises:
        StatementError: an option's value is none that it takes, or files cannot be read with these options.
    """
    dialect = Dialect.of(options)
    scan = SyntaxScan(dialect.separator, dialect.quote, dialect.escape, dialect.comment, dialect.encoding)
    for file in found.files:
        scan.read(file)
    check_quotes(scan.found, dialect)
    names = column_names(first_row(found, dialect), dialect.header) if columns is None else []
    if columns is not None:
        names = [name for name in columns if name not in found.partitions]
    rows = reader(found, dialect, scan.found, options["nullvalue"], names)
    kinds = dict.fromkeys(names, "VARCHAR") if columns is None else {name: columns[name] for name in names}
    if columns is None and truth(options, "inferschema"):
        kinds = inferred(connection, rows, names)
    items = [cast_of(name, kinds[name]) for name in names]
    sql = f"SELECT {', '.join([*items, *found.added])} FROM {rows}"
    make_macros(sql, connection)
    return sql


def truth(options: Mapping[str, str], name: str) -> bool:
    """Return the value of an option that is true or false."""
    return options[name].lower() == "true"


def check_quotes(syntax: Syntax, dialect: Dialect) -> None:
    """Require that quotes are not doubled in quoted values, unless they are escaped so: Spark takes no such value for quoted,
    and values with line breaks in files whose quotes are all right are read as such.

    Raises:
        StatementError: they are.
    """
    if syntax.doubled is not None:
        file, line = syntax.doubled
        raise StatementError(
            f"{file} doubles quotes inside a quoted value in line {line}; the option escape is '{dialect.escape}'. "
            f"Read it with escape '{dialect.quote}'."
        )


def reader(found: Listing, dialect: Dialect, syntax: Syntax, absent: str, names: list[str]) -> str:
    """Return what follows FROM: the cells of each row as strings, and the columns of folders.

    An empty value is NULL, as the one that nullValue names; then one in quotes is an empty string.
    """
    by_line = syntax.endings or syntax.blank or (syntax.empty and len(names) == 1)
    trims = dialect.leading or dialect.trailing
    if syntax.loses or syntax.comments or (trims and syntax.quotes) or (by_line and not dialect.multiline):
        rows = rows_by_text(found, dialect, names) if dialect.multiline else rows_by_line(found, dialect, syntax, names)
        values = [f"nullif({quoted(name)}, {literal(absent)}) AS {quoted(name)}" for name in names]
    else:
        rows = duckdb_rows(found, dialect, syntax, absent, names)
        if not absent and not trims:
            return rows
        values = [f"nullif({trimmed(quoted(name), dialect)}, {literal(absent)}) AS {quoted(name)}" for name in names]
    return f"(SELECT {', '.join([*values, *map(quoted, found.partitions)])} FROM {rows})"


def duckdb_rows(found: Listing, dialect: Dialect, syntax: Syntax, absent: str, names: list[str]) -> str:
    """Return DuckDB's reader, for files that it reads as Spark does."""
    arguments = {
        "auto_detect": "false",
        "header": str(dialect.header).lower(),
        "delim": literal(dialect.separator),
        "quote": literal(dialect.quote),
        "escape": literal(dialect.escape if syntax.escapes else dialect.quote),
        "encoding": literal(dialect.encoding),
        "nullstr": "''",
        "allow_quoted_nulls": str(not absent).lower(),
        "null_padding": "true",
        "strict_mode": "false",
        "parallel": str(not dialect.multiline).lower(),
        "columns": "{" + ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names) + "}",
    }
    listed = ", ".join(f"{name} = {value}" for name, value in arguments.items())
    return f"read_csv({found.array}, {room_for(syntax)}{listed}, {found.arguments})"


def trimmed(value: str, dialect: Dialect) -> str:
    """Return a value without the white space that the options ignore."""
    name = {(True, True): "trim", (True, False): "ltrim", (False, True): "rtrim"}.get((dialect.leading, dialect.trailing))
    return f"{name}({value}, {literal(WHITE)})" if name else value


def room_for(syntax: Syntax) -> str:
    """Return the arguments of DuckDB's reader that let it take the longest line."""
    return f"max_line_size = {syntax.longest + 2}, buffer_size = {4 * syntax.longest}, " if syntax.longest else ""


def rows_by_line(found: Listing, dialect: Dialect, syntax: Syntax, names: list[str]) -> str:
    """Return a query of rows whose cells are taken from whole lines."""
    lines = []
    for count, files in itertools.groupby(found.files, lambda file: lines_before(file, dialect) if dialect.header else 0):
        part = Listing(tuple(files), found.partitions)
        arguments = f"delim = {literal(NOWHERE)}, quote = '', escape = '', comment = '', columns = {{'line': 'VARCHAR'}}"
        options = f"auto_detect = false, header = false, skip = {count}, encoding = {literal(dialect.encoding)}"
        options = f"{room_for(syntax)}{options}"
        lines.append(f"SELECT * FROM read_csv({part.array}, {arguments}, {options}, strict_mode = false, {found.arguments})")
    kept = f"trim(line, {literal(WHITE)}) <> ''"
    if dialect.comment:
        kept += f" AND NOT starts_with(line, {literal(dialect.comment)})"
    plain = f"list_transform(string_split(line, {literal(dialect.separator)}), lambda c: {empty_as_null(dialect)})"
    cells = (
        f"CASE WHEN contains(line, {literal(dialect.quote)}) THEN xpsql_csv_cells(line, {options_of(dialect)}) ELSE {plain} END"
    )
    others = "".join(f", {quoted(name)}" for name in found.partitions)
    inner = f"SELECT {cells if dialect.quote else plain} AS xpsql_cells{others} FROM ({' UNION ALL '.join(lines)}) WHERE {kept}"
    return f"(SELECT {cells_as(names)}{others} FROM ({inner}))"


def empty_as_null(dialect: Dialect) -> str:
    return f"nullif({trimmed('c', dialect)}, '')"


def cells_as(names: list[str]) -> str:
    """Return cells as columns."""
    return ", ".join(f"xpsql_cells[{place}] AS {quoted(name)}" for place, name in enumerate(names, 1))


def options_of(dialect: Dialect) -> str:
    """Return the arguments of our functions of CSV that follow the text."""
    texts = ", ".join(map(literal, (dialect.separator, dialect.quote, dialect.escape)))
    return f"{texts}, {dialect.leading}, {dialect.trailing}"


def rows_by_text(found: Listing, dialect: Dialect, names: list[str]) -> str:
    """Return a query of rows whose cells are taken from whole files.

    Raises:
        StatementError: the files are compressed, in folders of partitions, or have several characters between cells.
    """
    if (
        found.partitions
        or len(dialect.separator) > 1
        or dialect.encoding != "utf-8"
        or any(file.endswith((".gz", ".zst")) for file in found.files)
    ):
        raise StatementError(
            f"{found.files[0]} or a file next to it has quotes inside of values or comments, which go without multiLine only. "
            f"Write it with quotes doubled and escape '{dialect.quote}', or read it on Spark."
        )
    first = 2 if dialect.header else 1
    rows = f"unnest(xpsql_csv_rows(content, {options_of(dialect)}, {literal(dialect.comment)})[{first}:])"
    return f"(SELECT {cells_as(names)} FROM (SELECT {rows} AS xpsql_cells FROM read_text({found.array})))"


def lines_before(file: str, dialect: Dialect) -> int:
    """Return the lines up to the header, which is one of them."""
    for number, line in enumerate(lines_of(file, dialect), 1):
        if is_row(line, dialect):
            return number
    return 0


def lines_of(file: str, dialect: Dialect) -> list[str]:
    """Return the first lines of a file.

    Raises:
        StatementError: they are not in the encoding.
    """
    text = next(whole_lines(file, "CSV"), b"")
    try:
        return text.decode(dialect.encoding).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise no_text(file, str(error), dialect.encoding) from error


def no_text(file: str, why: str, encoding: str) -> StatementError:
    """Return the error of a file whose bytes are no text."""
    return StatementError(
        f"{file} is no text in {encoding.upper()}: {why}. Read it with its encoding, OPTIONS (encoding 'ISO-8859-1'), or "
        "convert it: iconv -f WINDOWS-1252 -t UTF-8 old.csv > new.csv."
    )


def is_row(line: str, dialect: Dialect) -> bool:
    return bool(line.strip(WHITE)) and not (dialect.comment and line.startswith(dialect.comment))


def first_row(found: Listing, dialect: Dialect) -> list[str]:
    """Return the cells of the first row of the files.

    Raises:
        StatementError: there is none.
    """
    arguments = (dialect.separator, dialect.quote, dialect.escape, dialect.leading, dialect.trailing)
    for file in found.files:
        lines = [line for line in lines_of(file, dialect)[:FIRST_LINES] if is_row(line, dialect)]
        if lines:
            if not dialect.quote:
                return lines[0].split(dialect.separator)
            cells = (
                rows_of("\n".join(lines), *arguments, dialect.comment)[0]
                if dialect.multiline
                else cells_of(lines[0], *arguments)
            )
            return [cell or "" for cell in cells]
    raise StatementError(
        f"{found.files[0]} is empty, so that its columns are unknown. Name them: CREATE TEMPORARY VIEW v (a INT, ...)."
    )


def column_names(cells: list[str], header: bool) -> list[str]:
    """Return the names of columns as Spark makes them: `_c0` where there is no name, and a number after names that repeat."""
    if not header:
        return [f"_c{i}" for i in range(len(cells))]
    count = Counter(cell.lower() for cell in cells)
    named = [f"{cell}{i}" if count[cell.lower()] > 1 else cell for i, cell in enumerate(cells)]
    return [name or f"_c{i}" for i, name in enumerate(named)]
