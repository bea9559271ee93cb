"""The contracts of statements (parse into a command, run it in a context, return a result) and of table functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from ..errors import Position

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..engines.spark_sql.passage import Passage
    from ..engines.tasks import Room
    from .context import StatementContext
    from .cursor import Cursor
    from .versions import NamedVersion


class Command(Protocol):
    """A parsed statement."""

    def run(self, context: StatementContext) -> pa.Table | None:
        """Run it; rows for statements that answer, None for those that only act.

        Raises:
            XpsqlError: with what was expected, what came and what to do.
        """
        ...


@runtime_checkable
class TakesTasks(Command, Protocol):
    """A statement that runs in several tasks at once."""

    def check_room(self, context: StatementContext, room: Room, first: bool) -> None:
        """Refuse more tasks than an engine will have room for, before it starts; what is not known yet is refused later.

        Args:
            first: no statement of ours stands before it, so that models are as they will be when it runs.

        Raises:
            StatementError: as when it runs.
        """
        ...


class Statement(NamedTuple):
    """One of our statements, as STATEMENTS holds them.

    Attributes:
        name: its leading keywords, "SHOW MODELS"; a statement is chosen by the longest match.
        grammar: its syntax, as docs and DESCRIBE print it.
        help: one line.
        parse: reads the rest after the keywords; leaves the cursor at the end of the statement.
    """

    name: str
    grammar: str
    help: str
    parse: Callable[[Cursor], Command]


class Call(NamedTuple):
    """One call of a table function, parsed: `ML.NAME([MODEL model [VERSION n]] [, TABLE t | (query)] [, argument ...])`.

    Attributes:
        model: the model's name; empty where none is named.
        version: as written, or None for the one served.
        data: the data's query (`SELECT * FROM t` for a table), or None where no data is given; run it under
            `data.locating()`, so that its errors get their place in the statement.
        arguments: what follows, in order: each a bare name, a literal or a query.
        other: a second model and its version, where a function compares two.
        items: the query of ITEMS, as `data`; None without ITEMS.
        exclude: the column that EXCLUDE names; None without EXCLUDE.
        keywords: what follows keywords of the function, by keyword; those that are written.
        vectors: the queries of VECTORS by their names, each as `data`.
        columns: the result columns that the outer query can need, in lower case, or None for all of them.
        folder: an empty folder of this call, where a function may write its result.
        position: where the call stands.
        stack: closes when the result has been read.
    """

    model: str
    version: int | None
    data: Passage | None
    arguments: tuple[Any, ...]
    other: NamedVersion | None
    items: Passage | None
    exclude: str | None
    keywords: Mapping[str, Any]
    vectors: tuple[tuple[str, Passage], ...]
    columns: frozenset[str] | None
    folder: Path
    position: Position
    stack: ExitStack

    def read(self, context: StatementContext) -> Version:
        """Return the version that is named, whose files stay until the result has been read.

        Raises:
            ModelError: no such model or version, or one that is not ready.
        """
        version = self.stack.enter_context(context.models.reading(self.model, self.version))
        for name, query in self.vectors:
            from ..scoring.side_vectors import replaced  # few calls have vectors

            with query.locating():
                version = replaced(version, name, query.text, context.engine, self.folder / "vectors" / name)
        return version

    def read_other(self, context: StatementContext) -> Version:
        """Return the second version that is named; see `read`."""
        assert self.other is not None  # required by the grammar
        return self.stack.enter_context(context.models.reading(*self.other))


class Pending(NamedTuple):
    """The deferred result of a long call: its schema is known, so that the statement around is checked before work starts.

    Attributes:
        schema: the columns that the statement may name.
        make: makes the rows, with `Call.columns` at least, or files of them.
    """

    schema: pa.Schema
    make: Callable[[], pa.Table | list[Path]]


class Keyword(NamedTuple):
    """What a table function takes after a keyword of its own.

    Attributes:
        word: the keyword, "GROUP".
        read: reads what follows it; None: TABLE t | (query), which `Call.keywords` has as `Call.data` is.
        required: it must be written.
    """

    word: str
    read: Callable[[Cursor], Any] | None
    required: bool = False


def column_of(cursor: Cursor) -> str:
    """Read the name of a column of the data."""
    return cursor.identifier("a column of the query")


def read_keywords(cursor: Cursor, keywords: Sequence[Keyword], rows: Callable[[Cursor], Any]) -> dict[str, Any]:
    """Read `[, KEYWORD ...] ...`, those of a function, each once; VECTORS may follow.

    Raises:
        StatementError: another word comes, one comes twice, or one is missing.
    """
    found: dict[str, Any] = {}
    while (keyword := next((one for one in keywords if cursor.peek(",", one.word)), None)) is not None:
        cursor.expect(",")
        if keyword.word in found:
            raise cursor.error(f"{keyword.word} is given twice.")
        cursor.expect(keyword.word)
        found[keyword.word] = (keyword.read or rows)(cursor)
    if keywords and cursor.peek(",") and not cursor.peek(",", "VECTORS"):
        cursor.expect(",")
        raise cursor.expected("a keyword", [one.word for one in keywords])
    missing = [one.word for one in keywords if one.required and one.word not in found]
    if missing:
        raise cursor.expected(f"',' and {' and '.join(missing)}")
    return found


class TableFunction(NamedTuple):
    """A function of the FROM clause, as FUNCTIONS holds them.

    Attributes:
        name: the word after `ML.`, "PREDICT".
        grammar: its syntax, as docs print it.
        help: one line.
        data: whether it takes TABLE t | (query): "required", "optional" or "none".
        arguments: what the arguments after that are, for messages: ("a slot", "a value", "k"); all are required
            where there is no default.
        run: returns the rows, the query of the rows, or a Pending result.
        model: whether it takes MODEL name: "required", "optional" or "none".
        items: it takes [, ITEMS (query)] [, EXCLUDE column]: "after" the arguments, or "before" them, which then come with
            ITEMS alone; "" takes none.
        queries: an argument may be TABLE t | (query); `Call.arguments` has it as `Call.data` is.
        other: it takes a second MODEL name [VERSION n] after the first.
        keywords: what it takes after the arguments, each [, KEYWORD ...], in any order.
        vectors: it takes [, VECTORS name AS (query)] after data, in place of the version's own.
        default: the arguments where none are written.
        read: reads each argument, in place of a value.
    """

    name: str
    grammar: str
    help: str
    data: str
    arguments: tuple[str, ...]
    run: Callable[[StatementContext, Call], pa.Table | str | Pending]
    model: str = "required"
    items: str = ""
    queries: bool = False
    other: bool = False
    keywords: tuple[Keyword, ...] = ()
    vectors: bool = False
    default: tuple[Any, ...] = ()
    read: Callable[[Cursor], Any] | None = None
