"""Statements for the engine, and the calls of ML.* table functions inside them.

Calls are found among the tokens, before any SQL parser sees the text. So the rest of the statement reaches the engine exactly
as written, in whatever Spark SQL the engine reads, no parser has to learn `MODEL m VERSION n`, and positions stay true. Each
call runs first; its result is registered as a view, whose name takes the call's place in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...warehouse.scratch import scratch
from ..engines.base import internal_name
from ..engines.spark_sql.lexer import tokenize
from ..engines.spark_sql.passage import Passage
from ..errors import NotAvailableError, Position, StatementError, suggestion
from .base import Call, Pending, TableFunction, read_keywords
from .cursor import Cursor
from .functions import FUNCTIONS
from .histories import holds_history, unknown, written_out
from .kept_histories import kept_in
from .scopes import inlined
from .versions import NamedVersion, read_version

if TYPE_CHECKING:
    from .context import StatementContext


ALL_OF_CALL = re.compile(r"SELECT\s+\*\s+FROM\s+xpsql_call_[0-9a-f]{12}", re.IGNORECASE)
QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
CREATE_VIEW = re.compile(r"CREATE (OR REPLACE )?(GLOBAL )?(TEMP |TEMPORARY )?VIEW\b")


@dataclass(frozen=True)
class CallSite:
    """A call as written: where it starts and ends in the text around it, and its arguments."""

    start: int
    end: int
    position: Position
    function: TableFunction
    model: str
    version: int | None
    data: Query | None
    arguments: tuple[Any, ...]
    other: NamedVersion | None
    items: Query | None
    exclude: str | None
    keywords: Mapping[str, Any]
    vectors: tuple[tuple[str, Query], ...]


@dataclass(frozen=True)
class Query:
    """A statement of the engine, with the calls in it; a command."""

    passage: Passage
    calls: tuple[CallSite, ...]

    @classmethod
    def of(cls, passage: Passage) -> Query:
        """Find the calls of a text and check their syntax."""
        cursor = Cursor(passage, tokenize(passage))
        if holds_history(passage):
            written_out(passage, unknown)
        return cls(passage, tuple(find_calls(cursor)))

    def run(self, context: StatementContext) -> pa.Table | None:
        """Run the calls, then the statement."""
        with self.expanded(context) as passage, passage.locating():
            return context.engine.execute(passage.text)

    @contextmanager
    def expanded(self, context: StatementContext) -> Iterator[Passage]:
        """Run the calls and yield the text that reads their results, which stay until the end of the block."""
        if holds_history(self.passage):
            with Query.of(written_out(self.passage, kept_in(context))).expanded(context) as passage:
                yield passage
            return
        if not self.calls:
            yield self.passage
            return
        with own_folder(context) as folder, ExitStack() as stack:
            passage, pending = expand(self, context, folder, stack)
            if pending and not takes_all(passage):
                check_names(passage, context)
            finish(pending, context, folder)
            yield passage


@contextmanager
def own_folder(context: StatementContext) -> Iterator[Path]:
    """Yield a folder for the results of calls, in the warehouse where tasks on other machines write them."""
    if context.engine.tasks is not None:
        with scratch(context.models.warehouse) as folder:
            yield folder
        return
    with TemporaryDirectory(prefix="xpsql-call-") as name:
        yield Path(name)


def find_calls(cursor: Cursor) -> Iterator[CallSite]:
    """Find the calls at every depth of a statement, except inside the query of another call."""
    while not cursor.at_end:
        if cursor.peek("ML", ".") and not preceded_by_dot(cursor) and opens_call(cursor):
            yield read_call(cursor)
        else:
            cursor.index += 1


def preceded_by_dot(cursor: Cursor) -> bool:
    return cursor.index > 0 and cursor.tokens[cursor.index - 1].text == "."


def opens_call(cursor: Cursor) -> bool:
    after = cursor.tokens[cursor.index + 2 : cursor.index + 4]
    return len(after) == 2 and after[0].kind == "word" and after[1].text == "("


def read_call(cursor: Cursor) -> CallSite:
    """Read `ML.NAME(MODEL m [VERSION n] [, TABLE t | (query)] [, argument ...])`."""
    first = cursor.index
    refuse_view(cursor)
    cursor.expect("ML", ".")
    function = find_function(cursor)
    cursor.expect("(")
    model, version = read_model(cursor, function)
    other = read_other(cursor) if function.other else None
    data = read_data(cursor, function)
    items = read_items(cursor) if function.items == "before" else None
    wanted = function.arguments if items is not None or function.items != "before" else ()
    arguments: tuple[Any, ...] = function.default
    if not function.default or cursor.peek(","):
        arguments = tuple(read_argument(cursor, what, function) for what in wanted)
    items = read_items(cursor) if function.items == "after" else items
    excludes = function.items == "after" or items is not None
    exclude = cursor.identifier("a column of the query") if excludes and cursor.accept(",", "EXCLUDE") else None
    keywords = read_keywords(cursor, function.keywords, read_rows)
    vectors = tuple(read_vectors(cursor)) if function.vectors and data is not None else ()
    if not cursor.accept(")"):
        raise cursor.expected(f"')', as in {function.grammar}")
    start, end = cursor.tokens[first].start, cursor.tokens[cursor.index - 1].end
    where = cursor.span(first)
    return CallSite(start, end, where, function, model, version, data, arguments, other, items, exclude, keywords, vectors)


def read_model(cursor: Cursor, function: TableFunction) -> NamedVersion:
    """Read `MODEL m [VERSION n]` where a function takes it."""
    if function.model == "none" or (function.model == "optional" and not cursor.peek("MODEL")):
        return NamedVersion("", None)
    cursor.expect("MODEL")
    return read_version(cursor)


def read_other(cursor: Cursor) -> NamedVersion:
    """Read `, MODEL m [VERSION n]`, a second model."""
    if not cursor.accept(","):
        raise cursor.expected("',' and MODEL name, a second one")
    cursor.expect("MODEL")
    return read_version(cursor)


def find_function(cursor: Cursor) -> TableFunction:
    position = cursor.position()
    name = cursor.identifier("a function")
    if (function := FUNCTIONS.find(name.upper())) is not None:
        return function
    raise StatementError(f"There is no function ML.{name}.{suggestion(name, FUNCTIONS.names)}", position)


def read_data(cursor: Cursor, function: TableFunction) -> Query | None:
    if function.data == "none" or (function.data == "optional" and not cursor.peek(",")):
        return None
    if function.model != "none" and not cursor.accept(","):
        raise cursor.expected("',' and TABLE name or (query)")
    return read_rows(cursor)


def read_rows(cursor: Cursor) -> Query:
    """Read `TABLE t` or `(query)`."""
    if cursor.accept("TABLE"):
        name = cursor.table()
        return Query(name.inserted("SELECT * FROM ", 0).joined(name), ())
    if not cursor.peek("("):
        raise cursor.expected("TABLE name or (query)")
    return Query.of(cursor.parenthesised())


def read_items(cursor: Cursor) -> Query | None:
    """Read `[, ITEMS TABLE t | (query)]`."""
    return read_rows(cursor) if cursor.accept(",", "ITEMS") else None


def read_vectors(cursor: Cursor) -> Iterator[tuple[str, Query]]:
    """Read `[, VECTORS name AS (query)] ...`."""
    while cursor.accept(",", "VECTORS"):
        name = cursor.identifier("a name of vectors").lower()
        cursor.expect("AS")
        if not cursor.peek("("):
            raise cursor.expected("(query)")
        yield name, Query.of(cursor.parenthesised())


def read_argument(cursor: Cursor, what: str, function: TableFunction) -> Any:
    if not cursor.accept(","):
        raise cursor.expected(f"',' and {what}")
    if function.items == "after" and cursor.peek("ITEMS"):
        raise cursor.expected(f"{what} before ITEMS")
    if function.queries and (cursor.peek("TABLE") or any(cursor.peek("(", word) for word in QUERY_WORDS)):
        return read_rows(cursor)
    return cursor.value() if function.read is None else function.read(cursor)


def refuse_view(cursor: Cursor) -> None:
    """Refuse a call in CREATE VIEW: the view would outlive the call's result."""
    words = " ".join(token.text.upper() for token in cursor.tokens[:6])
    if CREATE_VIEW.match(words):
        raise NotAvailableError(
            "A view cannot hold a call of ML.*, it would outlive the result of the call. Use CREATE TABLE ... AS.",
            cursor.position(),
        )


def expand(query: Query, context: StatementContext, folder: Path, stack: ExitStack) -> tuple[Passage, dict[str, Pending]]:
    """Run the calls of a query, each in a folder of its own.

    Returns:
        The text that reads their results, and the pending results: view -> result. Until they are made, the view is empty.
    """
    views = [internal_name("call") for _ in query.calls]
    passage = query.passage.replaced((site.start, site.end, view) for site, view in zip(query.calls, views, strict=True))
    pending: dict[str, Pending] = {}
    for site, view in zip(query.calls, views, strict=True):
        result = run_call(site, view, passage, pending, context, folder / view, stack)
        if isinstance(result, str):
            context.engine.execute(f"CREATE TEMPORARY VIEW {view} AS {result}")
            continue
        if isinstance(result, Pending):
            pending[view] = result
            show(context, view, result.schema.empty_table(), folder / view / "columns.parquet")
        else:
            show(context, view, result, folder / view / "rows.parquet")
    return passage, pending


def finish(pending: Mapping[str, Pending], context: StatementContext, folder: Path) -> None:
    """Make the pending results."""
    for view, result in pending.items():
        made = result.make()
        if isinstance(made, pa.Table):
            show(context, view, made, folder / view / "rows.parquet")
        else:
            context.engine.register(view, made)


def takes_all(statement: Passage) -> bool:
    """Return whether a statement is `SELECT * FROM` the result of one call, which names nothing that could be wrong."""
    return bool(ALL_OF_CALL.fullmatch(statement.text.strip()))


def check_names(statement: Passage, context: StatementContext) -> None:
    """Refuse a statement whose query cannot run, such as one that names a column that no view of a call has.

    Raises:
        StatementError: with its place.
    """
    from ..engines.spark_sql.statements import query_inside  # brings sqlglot

    query = query_inside(statement.text)
    if query is not None:
        with statement.locating():
            context.engine.schema(query)


def run_call(
    site: CallSite,
    view: str,
    around: Passage,
    pending: dict[str, Pending],
    context: StatementContext,
    folder: Path,
    stack: ExitStack,
) -> pa.Table | str | Pending:
    """Run one call. The view of its result goes when the stack closes.

    Args:
        around: the statement, in which the call is replaced by `view`.
        pending: pending results of earlier calls; the ones that this call reads are made first.
        folder: to be created, for what the call writes.
    """
    from .projection import NoTableError, needed_columns  # brings sqlglot

    folder.mkdir()

    def made(query: Query) -> Passage:
        """Make the results that a query of the call reads, and return its text."""
        passage, inner = expand(query, context, folder.parent, stack)
        text = inlined(passage, around, view)
        finish({**{name: pending.pop(name) for name in list(pending) if name in text.text}, **inner}, context, folder.parent)
        return text

    data, items = (None if query is None else made(query) for query in (site.data, site.items))
    try:
        columns = needed_columns(around.text, view)
    except NoTableError:
        name = f"ML.{site.function.name}"
        message = f"{name} returns a table; a value is expected here. Read it in FROM: SELECT ... FROM {name}(...)."
        raise StatementError(message, site.position) from None
    stack.callback(context.engine.execute, f"DROP VIEW IF EXISTS {view}")  # first: Ctrl-C may come when it is made
    call = Call(
        model=site.model,
        version=site.version,
        data=data,
        arguments=tuple(made(one) if isinstance(one, Query) else one for one in site.arguments),
        other=site.other,
        items=items,
        exclude=site.exclude,
        keywords={word: made(one) if isinstance(one, Query) else one for word, one in site.keywords.items()},
        vectors=tuple((name, made(query)) for name, query in site.vectors),
        columns=columns,
        folder=folder,
        position=site.position,
        stack=stack,
    )
    try:
        return site.function.run(context, call)
    except StatementError as error:
        raise error.at(error.position or site.position) from error.__cause__


def show(context: StatementContext, view: str, rows: pa.Table, path: Path) -> None:
    """Make a function's rows a view: in memory, or as a file where an engine has tasks, which are on other machines."""
    if context.engine.tasks is None:
        context.engine.register_rows(view, rows)
        return
    import pyarrow.parquet as pq

    pq.write_table(rows, path)
    context.engine.register(view, [path])
