"""Which statement a text is, and its parts. Queries inside are left as text at their place, for `dialect.parse`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from ...errors import NotAvailableError, Position, StatementError
from .cursor import QUERY_STARTS, Cursor, unqualified
from .quoting import quoted
from .tokens import level, place
from .tree import CreateTable, CreateView, Describe, Drop, FileView, Insert, Name, Query, ShowTables, Statement

FORMATS = ("parquet", "csv", "json")
RUNS = "SELECT, CREATE TABLE, CREATE VIEW, INSERT, DROP, SHOW TABLES and DESCRIBE"


def read(text: str) -> Statement:
    """Tell which statement a text is.

    Raises:
        StatementError: it is none that the engine runs, or is not complete.
    """
    cursor = Cursor(text)
    if cursor.at_end:
        raise StatementError("A statement was expected, the text is empty.")
    if cursor.peek(*QUERY_STARTS):
        at = insert_in(cursor.tokens)
        return cursor.query() if at is None else insert_inside(cursor, at)
    for words, parse in STATEMENTS.items():
        if cursor.accept(*words.split()):
            return parse(cursor)
    begins = " ".join(token.text for token in cursor.tokens[:2])
    raise NotAvailableError(f"The engine runs {RUNS}; it does not know {begins!r}.", cursor.position)


def read_query(text: str) -> Query:
    """Return the query that a text is.

    Raises:
        StatementError: it is something else.
    """
    statement = read(text)
    if not isinstance(statement, Query):
        raise StatementError("A query was expected: SELECT, WITH or VALUES.", Cursor(text).position)
    return statement


def query_inside(text: str) -> str | None:
    """Return the query of a statement that is one or holds one, at its place; None where it has none that is known here."""
    try:
        statement = read(text)
    except StatementError:
        return None
    if isinstance(statement, CreateTable | Insert):
        return statement.query.text if statement.query is not None else None
    return statement.text if isinstance(statement, Query) else None


def read_name(text: str) -> Name:
    """Return the name of a table that a text is: `t`, `default.t`, with or without backticks."""
    cursor = Cursor(text)
    name = cursor.name()
    cursor.end()
    return name


def name_sql(name: Name) -> str:
    """Return a name as Spark SQL writes it."""
    return quoted(name.name)


def insert_in(tokens: Sequence[Token]) -> int | None:
    """Return the number of the token INSERT that stands outside of parentheses before INTO or OVERWRITE; None without one."""
    depth = 0
    for number, (token, after) in enumerate(pairwise(tokens)):
        depth += level(token)
        if depth == 0 and token.token_type == TokenType.INSERT and after.text.upper() in ("INTO", "OVERWRITE"):
            return number
    return None


def create_view(cursor: Cursor, replace: bool, temporary: bool) -> Statement:
    if_absent = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    start = cursor.index
    columns = cursor.parenthesised() if cursor.peek("(") else None
    if cursor.accept("USING"):
        if not temporary:
            raise NotAvailableError("A view of files is temporary: CREATE TEMPORARY VIEW ... USING.", name.position)
        return FileView(name, replace, file_format(cursor), *options(cursor), columns)
    names: tuple[str, ...] = ()
    if columns is not None:
        cursor.index = start
        names = column_names(cursor)
    comment(cursor)
    cursor.expect("AS")
    return CreateView(name, replace, temporary, if_absent, names, cursor.query())


def create_table(cursor: Cursor, replace: bool) -> CreateTable:
    if_absent = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    columns = cursor.parenthesised() if cursor.peek("(") else None
    if cursor.accept("USING") and file_format(cursor) != "parquet":
        raise NotAvailableError("Tables of the warehouse are Parquet: USING parquet, or nothing.", name.position)
    comment(cursor)
    if columns is not None:
        cursor.end()
        return CreateTable(name, replace, if_absent, None, columns)
    if not cursor.accept("AS") and not cursor.peek(*QUERY_STARTS):
        raise cursor.expected("(columns) or AS query")
    return CreateTable(name, replace, if_absent, cursor.query(), None)


def insert(cursor: Cursor, overwrite: bool) -> Insert:
    cursor.accept("TABLE")
    name = cursor.name()
    by_name = cursor.accept("BY", "NAME")
    columns: tuple[str, ...] = ()
    start = cursor.index
    if not by_name and cursor.accept("("):
        query = cursor.peek(*QUERY_STARTS)
        cursor.index = start
        columns = () if query else column_names(cursor)
    return Insert(name, overwrite, by_name, columns, cursor.query())


def insert_inside(cursor: Cursor, at: int) -> Insert:
    """Step over a query with an INSERT inside, at a token: `WITH ... INSERT INTO t SELECT ...`."""
    cursor.index = at + 1
    statement = insert(cursor, overwrite=cursor.take().text.upper() == "OVERWRITE")
    start = cursor.tokens[at].start
    return replace(statement, query=Query(cursor.text[:start] + statement.query.text[start:]))


def drop(cursor: Cursor, kind: str) -> Drop:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name()
    cursor.accept("PURGE")
    cursor.end()
    return Drop(name, kind, if_exists)


def show(cursor: Cursor, kind: str) -> ShowTables:
    if cursor.accept("IN") or cursor.accept("FROM"):
        position = cursor.position
        unqualified([cursor.identifier("A database"), ""], position)
    pattern = "*"
    if cursor.accept("LIKE") or not cursor.at_end:
        pattern = string(cursor)
    cursor.end()
    return ShowTables(kind, pattern)


def describe(cursor: Cursor) -> Describe:
    if cursor.accept("QUERY") or cursor.peek("SELECT", "WITH", "VALUES"):
        return Describe(None, cursor.query())
    cursor.accept("TABLE")
    name = cursor.name()
    cursor.end()
    return Describe(name, None)


# What follows the leading words of every statement that is no query.
STATEMENTS: dict[str, Callable[[Cursor], Statement]] = {
    "CREATE TABLE": partial(create_table, replace=False),
    "CREATE OR REPLACE TABLE": partial(create_table, replace=True),
    "CREATE VIEW": partial(create_view, replace=False, temporary=False),
    "CREATE TEMPORARY VIEW": partial(create_view, replace=False, temporary=True),
    "CREATE TEMP VIEW": partial(create_view, replace=False, temporary=True),
    "CREATE OR REPLACE VIEW": partial(create_view, replace=True, temporary=False),
    "CREATE OR REPLACE TEMPORARY VIEW": partial(create_view, replace=True, temporary=True),
    "CREATE OR REPLACE TEMP VIEW": partial(create_view, replace=True, temporary=True),
    "INSERT INTO": partial(insert, overwrite=False),
    "INSERT OVERWRITE": partial(insert, overwrite=True),
    "DROP TABLE": partial(drop, kind="TABLE"),
    "DROP VIEW": partial(drop, kind="VIEW"),
    "SHOW TABLES": partial(show, kind="TABLES"),
    "SHOW VIEWS": partial(show, kind="VIEWS"),
    "DESCRIBE": describe,
    "DESC": describe,
}


def column_names(cursor: Cursor) -> tuple[str, ...]:
    """Step over `(name [COMMENT 'text'], ...)`."""
    cursor.expect("(")
    names = []
    while True:
        names.append(cursor.identifier("A column"))
        comment(cursor)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(names)


def comment(cursor: Cursor) -> None:
    if cursor.accept("COMMENT"):
        string(cursor)


def string(cursor: Cursor) -> str:
    if cursor.at_end or cursor.here.token_type != TokenType.STRING:
        raise cursor.expected("A 'string'")
    return cursor.take().text


def file_format(cursor: Cursor) -> str:
    """Step over the name of a format: parquet, or Spark's long name for it."""
    position = cursor.position
    parts = [cursor.identifier("A format")]
    while cursor.accept("."):
        parts.append(cursor.identifier("A format"))
    if parts[-1].lower() not in FORMATS:
        raise StatementError(f"The format {'.'.join(parts)} is not known. Valid: {', '.join(FORMATS)}.", position)
    return parts[-1].lower()


def options(cursor: Cursor) -> tuple[dict[str, str], dict[str, Position]]:
    """Step over `OPTIONS (name 'value', ...)` and return the values and their places; names in lower case."""
    found: dict[str, str] = {}
    places: dict[str, Position] = {}
    cursor.expect("OPTIONS")
    cursor.expect("(")
    while not cursor.accept(")"):
        first = cursor.here
        name = cursor.take().text
        while cursor.accept("."):
            name += "." + cursor.take().text
        cursor.accept("=")
        value = cursor.take()
        found[name.lower()] = value.text
        places[name.lower()] = place(cursor.text, first.start, value.end + 1)
        if not cursor.accept(",") and not cursor.peek(")"):
            raise cursor.expected("',' or ')'")
    cursor.end()
    return found, places
