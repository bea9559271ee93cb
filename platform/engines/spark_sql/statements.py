"""The statement that a text is, and its parts. Queries inside are left as text at their place, for `dialect.parse`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ...errors import NotAvailableError, Position, StatementError
from ...quoting import quoted
from .column_lists import column_names, comment, partition_items, partitioning
from .cursor import Cursor
from .lexer import insert_in, tokenize
from .option_lists import options
from .passage import Passage, blanked
from .tree import (
    CreateTable,
    CreateView,
    Delete,
    Describe,
    Drop,
    DropPartition,
    FileView,
    Insert,
    InsertDirectory,
    Name,
    QueryText,
    ShowPartitions,
    ShowTables,
    Statement,
)

DATABASES = ("default", "spark_catalog")
QUERY_STARTS = ("SELECT", "WITH", "VALUES", "FROM", "(")
FORMATS = ("parquet", "csv", "json", "delta")
FROM = "FROM "  # as long as the shortest words before what is described, DESC and a space, so that positions stay true
RUNS = (
    "SELECT, CREATE TABLE, CREATE VIEW, INSERT, DELETE, ALTER TABLE ... DROP PARTITION, DROP, SHOW TABLES, SHOW PARTITIONS and "
    "DESCRIBE"
)


def read(text: str) -> Statement:
    """Return which statement a text is.

    Raises:
        StatementError: the engine does not run such a statement, or it is incomplete.
    """
    cursor = opened(text)
    if cursor.at_end:
        raise StatementError("Expected a statement, the text is empty.")
    if starts_query(cursor):
        at = insert_in(cursor.tokens)
        return query(cursor) if at is None else insert_inside(cursor, at)
    for words, parse in STATEMENTS.items():
        if cursor.accept(*words.split()):
            return parse(cursor)
    begins = " ".join(token.text for token in cursor.tokens[:2])
    raise NotAvailableError(f"The engine runs {RUNS}; it does not run {begins!r}.", cursor.position())


def opened(text: str) -> Cursor:
    """Return a cursor at the start of one statement, which semicolons may end."""
    passage = Passage.of(text)
    tokens = list(tokenize(passage))
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    return Cursor(passage, tokens)


def starts_query(cursor: Cursor) -> bool:
    """Return whether a query comes next."""
    return any(cursor.peek(word) for word in QUERY_STARTS)


def query(cursor: Cursor) -> QueryText:
    """Read the rest, a query; what stands before it becomes white space, so that positions stay true."""
    if not starts_query(cursor):
        raise cursor.expected("a query")
    text, start = cursor.passage.text, cursor.tokens[cursor.index].start
    return QueryText(blanked(text[:start]) + cursor.remainder().text)


def relation(cursor: Cursor) -> Name:
    """Read the name of a table or view, `t` or `default.t`."""
    first = cursor.index
    parts = dotted(cursor, "the name of a table or view")
    position = cursor.span(first)
    return Name(unqualified(parts, position), position, len(parts) > 1)


def target(cursor: Cursor) -> Name:
    """Read the name of a table to make or fill: one of the warehouse, of a catalog, `lake.sales.log`, or delta.`folder`."""
    start, first = cursor.index, cursor.index
    parts = dotted(cursor, "the name of a table")
    database = parts[0].lower()
    if len(parts) > 2 and database not in DATABASES:
        return Name(parts[-1], cursor.span(first), True, tuple(parts[:-1]))
    if len(parts) == 2 and database == "delta":
        return Name(parts[1], cursor.span(first), True, ("delta",))
    cursor.index = start
    return relation(cursor)


def dotted(cursor: Cursor, what: str) -> list[str]:
    """Read names with dots between them."""
    parts = [cursor.identifier(what)]
    while cursor.accept("."):
        parts.append(cursor.identifier(what))
    return parts


def unqualified(parts: list[str], position: Position | None) -> str:
    """Return the name of a table without its database.

    Raises:
        StatementError: a database that the warehouse does not have.
    """
    *databases, name = (part.lower() for part in parts)
    for database in databases:
        if database not in DATABASES:
            raise StatementError(f"There is no database {database}; the warehouse has one, named default.", position)
    return name


def read_query(text: str) -> QueryText:
    """Return the query that a text is.

    Raises:
        StatementError: it is another statement.
    """
    statement = read(text)
    if not isinstance(statement, QueryText):
        raise opened(text).expected("a query (SELECT, WITH or VALUES)")
    return statement


def query_inside(text: str) -> str | None:
    """Return the query of a statement that is one or holds one, at its place; None where it has none that is known here."""
    try:
        statement = read(text)
    except StatementError:
        return None
    if isinstance(statement, CreateTable | Insert | InsertDirectory):
        return statement.query.text if statement.query is not None else None
    return statement.text if isinstance(statement, QueryText) else None


def read_name(text: str) -> Name:
    """Return the name of a table that a text is: `t`, `default.t`, with or without backticks."""
    cursor = opened(text)
    name = target(cursor)
    cursor.done()
    return name


def name_sql(name: Name) -> str:
    """Return a name as Spark SQL writes it."""
    return ".".join(map(quoted, (*name.within, name.name)))


def create_view(cursor: Cursor, replace: bool, temporary: bool) -> Statement:
    if_absent = cursor.accept("IF", "NOT", "EXISTS")
    name = relation(cursor)
    start = cursor.index
    columns = cursor.parenthesised().text if cursor.peek("(") else None
    if cursor.accept("USING"):
        if not temporary:
            raise NotAvailableError("A view of files is temporary: CREATE TEMPORARY VIEW ... USING.", name.position)
        view = FileView(name, replace, file_format(cursor), *options(cursor), columns)
        cursor.done()
        return view
    names: tuple[str, ...] = ()
    if columns is not None:
        cursor.index = start
        names = column_names(cursor)
    comment(cursor)
    cursor.expect("AS")
    return CreateView(name, replace, temporary, if_absent, names, query(cursor))


def create_table(cursor: Cursor, replace: bool) -> CreateTable:
    if_absent = cursor.accept("IF", "NOT", "EXISTS")
    name = target(cursor)
    columns = cursor.parenthesised().text if cursor.peek("(") else None
    own = "parquet" if not name.within else "delta" if name.within == ("delta",) else "iceberg"
    if cursor.accept("USING") and not cursor.accept(own) and file_format(cursor) != own:
        raise NotAvailableError(
            f"This table is {own.capitalize()}: USING {own}, or nothing. delta.`folder` is a Delta table, and a name with a "
            "catalog one of Iceberg.",
            name.position,
        )
    comment(cursor)
    columns, by = partitioning(cursor, columns)
    comment(cursor)
    if columns is not None:
        cursor.done()
        return CreateTable(name, replace, if_absent, None, columns, by)
    if not cursor.accept("AS") and not starts_query(cursor):
        raise cursor.expected("(columns) or AS query")
    return CreateTable(name, replace, if_absent, query(cursor), None, by)


def insert(cursor: Cursor, overwrite: bool) -> Insert | InsertDirectory:
    if overwrite and (cursor.accept("LOCAL", "DIRECTORY") or cursor.accept("DIRECTORY")):
        return insert_directory(cursor)
    cursor.accept("TABLE")
    name = target(cursor)
    partition = partition_items(cursor) if cursor.accept("PARTITION") else ()
    by_name = cursor.accept("BY", "NAME")
    columns: tuple[str, ...] = ()
    start = cursor.index
    if not by_name and cursor.accept("("):
        parenthesised = starts_query(cursor)
        cursor.index = start
        columns = () if parenthesised else column_names(cursor)
    return Insert(name, overwrite, by_name, columns, query(cursor), partition)


def insert_directory(cursor: Cursor) -> InsertDirectory:
    position, path = cursor.position(), ""
    if not cursor.peek("USING"):
        path = cursor.string("a 'path'")
    format = "parquet"
    found: dict[str, str] = {}
    places: dict[str, Position] = {}
    if cursor.accept("USING") or cursor.accept("STORED", "AS"):
        format = file_format(cursor)
    if cursor.peek("OPTIONS"):
        found, places = options(cursor)
    path = path or found.pop("path", "")
    return InsertDirectory(path, places.get("path", position), format, found, places, query(cursor))


def insert_inside(cursor: Cursor, at: int) -> Insert | InsertDirectory:
    """Step over a query with an INSERT inside, at a token: `WITH ... INSERT INTO t SELECT ...`."""
    cursor.index = at + 2
    statement = insert(cursor, overwrite=cursor.tokens[at + 1].text.upper() == "OVERWRITE")
    start = cursor.tokens[at].start
    return replace(statement, query=QueryText(cursor.passage.text[:start] + statement.query.text[start:]))


def delete(cursor: Cursor) -> Delete:
    first, start, name = cursor.tokens[0], cursor.tokens[1].start, relation(cursor)
    alias = name.name
    if cursor.accept("AS") or not (cursor.at_end or cursor.peek("WHERE")):
        alias = cursor.identifier("an alias")
    condition = cursor.remainder("a condition").text if cursor.accept("WHERE") else None
    cursor.done()
    text = cursor.passage.text
    gap = blanked(text[first.end : start])
    select = f"{blanked(text[: first.start])}SELECT{gap.removesuffix(' ')}*"  # as long as what stood there
    return Delete(name, alias, condition, QueryText(select + text[start : cursor.tokens[-1].end]))


def alter_table(cursor: Cursor) -> DropPartition:
    name = relation(cursor)
    if not cursor.accept("DROP"):
        raise NotAvailableError("ALTER TABLE drops partitions: ALTER TABLE t DROP PARTITION (day = '...').", cursor.position())
    if_exists = cursor.accept("IF", "EXISTS")
    partitions = cursor.listed(lambda: partition_spec(cursor))
    cursor.accept("PURGE")
    cursor.done()
    return DropPartition(name, if_exists, partitions)


def partition_spec(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    cursor.expect("PARTITION")
    return partition_items(cursor)


def drop(cursor: Cursor, kind: str) -> Drop:
    if_exists = cursor.accept("IF", "EXISTS")
    name = relation(cursor)
    cursor.accept("PURGE")
    cursor.done()
    return Drop(name, kind, if_exists)


def show(cursor: Cursor, kind: str) -> ShowTables:
    if cursor.accept("IN") or cursor.accept("FROM"):
        position = cursor.position()
        unqualified([cursor.identifier("a database"), ""], position)
    pattern = "*"
    if cursor.accept("LIKE") or not cursor.at_end:
        pattern = cursor.string("a 'string'")
    cursor.done()
    return ShowTables(kind, pattern)


def show_partitions(cursor: Cursor) -> ShowPartitions:
    name = relation(cursor)
    cursor.done()
    return ShowPartitions(name)


def describe(cursor: Cursor) -> Describe:
    if cursor.accept("QUERY") or any(map(cursor.peek, ("SELECT", "WITH", "VALUES"))):
        return Describe(None, query(cursor))
    cursor.accept("TABLE")
    if any(cursor.peek(format, ".") for format in FORMATS):
        before = blanked(cursor.passage.text[: cursor.tokens[cursor.index].start])
        return Describe(None, QueryText(before.removesuffix(" " * len(FROM)) + FROM + cursor.remainder().text))
    name = relation(cursor)
    cursor.done()
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
    "DELETE FROM": delete,
    "ALTER TABLE": alter_table,
    "DROP TABLE": partial(drop, kind="TABLE"),
    "DROP VIEW": partial(drop, kind="VIEW"),
    "SHOW TABLES": partial(show, kind="TABLES"),
    "SHOW VIEWS": partial(show, kind="VIEWS"),
    "SHOW PARTITIONS": show_partitions,
    "DESCRIBE": describe,
    "DESC": describe,
}


def file_format(cursor: Cursor) -> str:
    """Step over the name of a format: parquet, or Spark's long name for it."""
    position = cursor.position()
    parts = dotted(cursor, "a format")
    if parts[-1].lower() not in FORMATS:
        raise StatementError(f"The format {'.'.join(parts)} is not known. Valid: {', '.join(FORMATS)}.", position)
    return parts[-1].lower()
