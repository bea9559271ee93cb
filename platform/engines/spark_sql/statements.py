"""Which statement a text is, and its parts. Queries inside are left as text at their place, for `dialect.parse`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from ...errors import NotAvailableError, Position, StatementError
from .quoting import quoted
from .tokens import level, place, tokens_of

DATABASES = ("default", "spark_catalog")
FORMATS = ("parquet", "csv", "json")
QUERY_STARTS = ("SELECT", "WITH", "VALUES", "FROM", "(")
RUNS = "SELECT, CREATE TABLE, CREATE VIEW, INSERT, DROP, SHOW TABLES and DESCRIBE"


@dataclass(frozen=True)
class Name:
    """A table or view, in lower case, where it was written, and whether with its database."""

    name: str
    position: Position | None = None
    qualified: bool = False


@dataclass(frozen=True)
class Query:
    """A query: the statement's text with all that stands before it blanked, so that positions stay true."""

    text: str


@dataclass(frozen=True)
class FileView:
    """CREATE TEMPORARY VIEW name [(columns)] USING format OPTIONS (...).

    `columns` is the text of the list, or None; `places` tells where each option stands.
    """

    name: Name
    replace: bool
    format: str
    options: dict[str, str]
    places: dict[str, Position]
    columns: str | None


@dataclass(frozen=True)
class CreateView:
    """CREATE [OR REPLACE] [TEMPORARY] VIEW [IF NOT EXISTS] name [(column, ...)] AS query."""

    name: Name
    replace: bool
    temporary: bool
    if_absent: bool
    columns: tuple[str, ...]
    query: Query


@dataclass(frozen=True)
class CreateTable:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name, of a query or of a list of columns."""

    name: Name
    replace: bool
    if_absent: bool
    query: Query | None
    columns: str | None


@dataclass(frozen=True)
class Insert:
    """INSERT INTO | OVERWRITE [TABLE] name [BY NAME | (column, ...)] query; WITH and FROM of the query may stand before it."""

    name: Name
    overwrite: bool
    by_name: bool
    columns: tuple[str, ...]
    query: Query


@dataclass(frozen=True)
class Drop:
    """DROP TABLE | VIEW [IF EXISTS] name."""

    name: Name
    kind: str
    if_exists: bool


@dataclass(frozen=True)
class ShowTables:
    """SHOW TABLES | VIEWS [LIKE 'pattern']."""

    kind: str
    pattern: str


@dataclass(frozen=True)
class Describe:
    """DESCRIBE [TABLE] name, or DESCRIBE [QUERY] query."""

    name: Name | None
    query: Query | None


Statement = Query | FileView | CreateView | CreateTable | Insert | Drop | ShowTables | Describe


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


class Cursor:
    """Reads the tokens of a statement from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = tokens_of(text)
        while self.tokens and self.tokens[-1].token_type == TokenType.SEMICOLON:
            self.tokens.pop()
        self.index = 0

    @property
    def at_end(self) -> bool:
        return self.index >= len(self.tokens)

    @property
    def here(self) -> Token:
        """The next token.

        Raises:
            StatementError: there is none.
        """
        if self.at_end:
            raise StatementError(f"The statement ends too early, after {self.tokens[-1].text!r}. Complete it.")
        return self.tokens[self.index]

    @property
    def position(self) -> Position | None:
        return None if self.at_end else place(self.text, self.here.start, self.here.end + 1)

    def peek(self, *words: str) -> bool:
        """Tell whether the next token is one of some words."""
        if self.at_end or self.here.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return False
        return self.here.text.upper() in words

    def accept(self, *words: str) -> bool:
        """Step over a sequence of words, if it comes next."""
        start = self.index
        for word in words:
            if not self.peek(word):
                self.index = start
                return False
            self.index += 1
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.expected(word)

    def expected(self, what: str) -> StatementError:
        found = "the end of the statement" if self.at_end else repr(self.here.text)
        return StatementError(f"{what} was expected, got {found}.", self.position)

    def take(self) -> Token:
        token = self.here
        self.index += 1
        return token

    def identifier(self, what: str) -> str:
        """Step over a name and return it as written."""
        token = self.here
        named = token.text[:1].isalnum() or token.text[:1] == "_" or token.token_type == TokenType.IDENTIFIER
        if token.token_type == TokenType.STRING or not named:
            raise self.expected(what)
        return self.take().text

    def name(self) -> Name:
        """Step over the name of a table or view, `t` or `default.t`."""
        first = self.here
        parts = [self.identifier("The name of a table or view")]
        while self.accept("."):
            parts.append(self.identifier("The name of a table or view"))
        position = place(self.text, first.start, self.tokens[self.index - 1].end + 1)
        return Name(unqualified(parts, position), position, len(parts) > 1)

    def query(self) -> Query:
        """Step over the rest, a query."""
        if not self.peek(*QUERY_STARTS):
            raise self.expected("A query")
        start, end = self.here.start, self.tokens[-1].end + 1
        self.index = len(self.tokens)
        return Query(blanked(self.text[:start]) + self.text[start:end])

    def parenthesised(self) -> str:
        """Step over `( ... )` and return what is inside, at its place."""
        opening, depth = self.here, 0
        self.expect("(")
        while depth or not self.peek(")"):
            depth += self.peek("(") - self.peek(")")
            self.take()
        closing = self.take()
        return blanked(self.text[: opening.end + 1]) + self.text[opening.end + 1 : closing.start]

    def end(self) -> None:
        if not self.at_end:
            raise self.expected("The end of the statement")


def blanked(text: str) -> str:
    """Return white space of the same lines and columns as a text."""
    return "".join(c if c == "\n" else " " for c in text)


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
