"""STREAM before a relation of a query: found among the tokens and cut out, before any SQL parser sees the text.

What stands for the stream in the rest of the query is the view VIEW, so the text stays Spark SQL and positions stay true. A
table that is named stream is written in backticks, where another name follows it.
"""

from __future__ import annotations

from typing import NamedTuple

from ..engines.spark_sql.lexer import level, tokenize
from ..engines.spark_sql.passage import Passage
from ..errors import StatementError, Subject
from ..input.streams.base import VIEW, StreamQuery, StreamRelation
from ..input.streams.sources import DELTA, SOURCES, TABLE, read_source
from ..options import Value
from ..training.clauses.settings import DELAY, Settings
from .clauses import Clauses, placing
from .cursor import Cursor
from .histories import calls_in
from .query import Query

FOLLOWS = frozenset(
    """WHERE GROUP ORDER HAVING LIMIT OFFSET JOIN INNER LEFT RIGHT FULL CROSS NATURAL SEMI ANTI ON USING UNION EXCEPT INTERSECT
    MINUS LATERAL WINDOW CLUSTER DISTRIBUTE SORT QUALIFY TABLESAMPLE PIVOT UNPIVOT""".split()  # noqa: SIM905
)
"""Words that may follow a relation and are not its alias."""
SETTINGS = ("until", "data_loss", "delay")
"""Settings of WITH about streams; CONTINUE does not inherit them."""


class Streamed(NamedTuple):
    """A query whose stream is cut out.

    Attributes:
        passage: the query over VIEW, whose positions are the script's.
        relation: the stream.
    """

    passage: Passage
    relation: StreamRelation

    @property
    def query(self) -> StreamQuery:
        """How a training reads it."""
        return StreamQuery(self.passage.text, self.relation)


def read_query(cursor: Cursor) -> Query:
    """Read the query after AS.

    Raises:
        StatementError: settings of the training come after it.
    """
    passage = cursor.remainder()
    tokens, depth = tokenize(passage), 0
    for token, *after in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        depth += level(token)
        if not depth and token.text.upper() == "WITH" and [after[0].text, after[2].text] == ["(", "="]:
            raise StatementError("WITH (...) must come before AS query.", passage.position(token.start, token.text))
    return Query.of(passage)


def stream_in(query: Query) -> Streamed | None:
    """Return a query with its stream cut out; None where it reads none.

    Raises:
        StatementError: it reads two, one in a join, or a result of ML.* beside it, or STREAM is followed by no relation.
    """
    tokens = tokenize(query.passage)
    cursor = Cursor(query.passage, tokens)
    found = None
    while not cursor.at_end:
        after = cursor.tokens[cursor.index - 1].text.upper() if cursor.index else ""
        if after not in ("FROM", "JOIN", ",") or not is_stream(cursor):
            cursor.index += 1
            continue
        if found is not None or after != "FROM":
            raise cursor.error(
                "A query reads one stream, and joins it with nothing. INSERT what belongs together into a table."
            )
        found = read_stream(cursor)
    if found is None:
        return None
    if query.calls:
        message = "A stream is learned row by row; calls of ML.* give whole results. INSERT them into a table, and stream that."
        raise StatementError(message, query.calls[0].position)
    for index in calls_in(tokens):
        message = "A stream is learned row by row, and HISTORY looks at earlier rows. CREATE HISTORY keeps those."
        raise StatementError(message, query.passage.position(tokens[index].start, tokens[index].text))
    (start, end, text), relation = found
    return Streamed(query.passage.replaced([(start, end, text)]), relation)


def read_by(stream: Streamed | None, query: Passage) -> Passage:
    """Return the text that a training reads: the query, or what is left of it without its stream."""
    return query if stream is None else stream.passage


def check_delay(stream: Streamed, settings: Settings) -> None:
    """Refuse an invalid delay, or one that has no effect.

    Raises:
        StatementError: says what delays are for.
    """
    if settings.delay_seconds is not None and stream.relation.kind == "read_kafka":
        message = f"{DELAY} joins files and tables, and a topic has neither. INSERT its messages into a table, and stream that."
        raise StatementError(message, subject=DELAY)


def check_settings(stream: Streamed | None, settings: Settings, given: Clauses) -> None:
    """Refuse settings of streams without a stream, and a stream without UNTIL or PUBLISH.

    Raises:
        StatementError: says what to add or leave out.
    """
    check_published(stream, settings, given)
    if stream is not None:
        with placing(given, stream.passage):
            check_delay(stream, settings)
    if stream is None:
        written = given["WITH"].value if "WITH" in given else {}
        if (name := next((name for name in SETTINGS if name in written), None)) is not None:
            subject = Subject("WITH", option=name)
            raise StatementError(
                f"{subject} needs a stream, and the query reads none. Write FROM STREAM, or leave it out.",
                written[name].position,
                subject,
            )
    elif (settings.passes or 1) > 1:
        subject = Subject("WITH", option="passes")
        message = f"{subject} = {settings.passes} reads rows again, and a stream is learned once, as it arrives. Leave it out."
        raise StatementError(message, given["WITH"].value["passes"].position, subject)
    elif settings.until is None and "PUBLISH" not in given:
        raise StatementError(
            "Say how long the stream is learned, to what has arrived or without end: add WITH (until = 'available'), or "
            "PUBLISH EVERY 10 MINUTES.",
            stream.passage.position(stream.passage.text.index(VIEW), "STREAM"),
        )


def check_published(stream: Streamed | None, settings: Settings, given: Clauses) -> None:
    """Refuse PUBLISH where it is not possible, and RETAIN without it.

    Raises:
        StatementError: says what to add or leave out.
    """
    if "PUBLISH" not in given:
        if "RETAIN" in given:
            message = "RETAIN LAST goes with PUBLISH EVERY; DROP MODEL m VERSIONS RETAIN LAST n removes old versions now."
            raise StatementError(message, given["RETAIN"].position)
        return
    apart = settings.sync != "asp" and settings.workers not in (None, 1)
    for wrong, why in (
        (stream is None, "needs a query that reads FROM STREAM"),
        (settings.until is not None, "runs until STOP MODEL, and WITH until ends where the stream does: leave out one"),
        ((settings.passes or 1) > 1, "reads what arrives once: leave out WITH passes"),
        (settings.delay is not None, "joins nothing: leave out WITH delay, and run a job by the minute"),
        (settings.once is not None, "keeps its position in the stream, so nothing is learned twice: leave out WITH once"),
        ("VALIDATE" in given, "holds out no rows: leave out VALIDATE, and judge the windows of EVALUATE"),
        (apart, "has workers that learn at their own pace: leave out WITH sync"),
    ):
        if wrong:
            raise StatementError(f"PUBLISH EVERY {why}.", given["PUBLISH"].position)


def is_stream(cursor: Cursor) -> bool:
    """Return whether STREAM and a relation come next; a table of that name may have an alias only after AS."""
    if not cursor.peek("STREAM") or len(cursor.tokens) == cursor.index + 1:
        return False
    following = cursor.tokens[cursor.index + 1]
    return following.kind == "quoted" or (following.kind == "word" and following.text.upper() not in (*FOLLOWS, "AS"))


def read_stream(cursor: Cursor) -> tuple[tuple[int, int, str], StreamRelation]:
    """Read STREAM and its relation; return the edit that replaces it, and the relation."""
    start = cursor.tokens[cursor.index].start
    cursor.expect("STREAM")
    first = cursor.index
    name = cursor.identifier("a table, a folder or a function")
    text = VIEW
    try:
        if cursor.peek("("):
            relation = read_source(name, arguments(cursor))
        elif name.lower() == "parquet" and cursor.peek(".") and cursor.tokens[cursor.index + 1 :][:1]:
            cursor.expect(".")
            relation = read_source("read_files", {"": Value(cursor.identifier("a folder in backticks"), cursor.span(first))})
        elif name.lower() == DELTA and cursor.peek("."):
            cursor.expect(".")
            relation = StreamRelation(DELTA, cursor.identifier("a folder in backticks"), None)
        else:
            cursor.index = first
            relation = StreamRelation(TABLE, dotted(cursor, "a table"), None)
            alias = relation.place.rpartition(".")[2].replace("`", "``")
            text = VIEW if has_alias(cursor) else f"{VIEW} AS `{alias}`"
    except StatementError as error:
        raise error.at(error.position or cursor.span(first)) from error.__cause__
    return (start, cursor.tokens[cursor.index - 1].end, text), relation


def dotted(cursor: Cursor, what: str) -> str:
    """Read a name whose parts come with dots between them."""
    parts = [cursor.identifier(what)]
    while cursor.accept("."):
        parts.append(cursor.identifier(what))
    return ".".join(parts)


def has_alias(cursor: Cursor) -> bool:
    """Return whether an alias comes next."""
    return cursor.next_kind == "quoted" or (
        cursor.next_kind == "word" and cursor.tokens[cursor.index].text.upper() not in FOLLOWS
    )


def arguments(cursor: Cursor) -> dict[str, Value]:
    """Read `([place,] name => value, ...)`; the first may have no name, which is "" then."""
    cursor.expect("(")
    given: dict[str, Value] = {}
    while not cursor.accept(")"):
        if given:
            cursor.expect(",")
        first = cursor.index
        named = cursor.next_kind in ("word", "quoted")
        if not named and given:
            raise cursor.expected("name => value")
        name = dotted(cursor, "a parameter") if named else ""
        if named:
            cursor.expect("=", ">")
        value = cursor.value()
        if name.lower() in given:
            raise cursor.error(f"The parameter {name} is given twice.")
        given[name.lower()] = Value(value, cursor.span(first))
    return given


FORMS = ("STREAM table", "STREAM catalog.namespace.table", "STREAM delta.`folder`", "STREAM parquet.`folder`")
GRAMMAR = "\n".join((*FORMS, *(source.grammar for source in SOURCES)))
"""The forms of a stream, as docs print them."""
