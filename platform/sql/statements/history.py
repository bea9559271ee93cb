"""CREATE, REFRESH, DROP, SHOW and DESCRIBE HISTORY: the last events of each user, kept by the warehouse."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...engines.unknown_names import absent
from ...errors import ModelError, StatementError
from ...histories.event_parts import decoded, event_file, link_events
from ...histories.stored import HistoryDefinition, HistoryVersion, StoredHistories
from ...input.streams.sources import opened
from ...options import Value
from ...training.clauses.publish import read_publish
from .. import streams
from ..base import Statement
from ..cursor import Cursor
from ..query import Query

if TYPE_CHECKING:
    from ..context import StatementContext

MOST = 1_000_000
SCHEMA = pa.schema(
    [("history", pa.string()), ("version", pa.int64()), ("events", pa.int64()), ("kept", pa.int64()), ("users", pa.int64()),
     ("published", pa.timestamp("ms", tz="UTC"))]
)  # fmt: skip


@dataclass(frozen=True)
class CreateHistory:
    """A history is defined, and its first version made."""

    name: str
    statement: str
    query: Query
    stream: streams.Streamed | None
    partition: Value
    order: Value
    keep: int
    within: str | None
    every: float | None

    def run(self, context: StatementContext) -> pa.Table:
        histories = StoredHistories(context.models.warehouse)
        definition = HistoryDefinition(
            self.name, self.statement, self.query.passage.text, self.partition.value, self.order.value, self.values(context),
            self.keep, self.within,
        )  # fmt: skip
        histories.create(definition)
        try:
            return refreshed(histories, definition, context, self.every)
        except BaseException:
            if histories.newest(self.name) is None:
                histories.drop(self.name)
            raise

    def values(self, context: StatementContext) -> tuple[str, ...]:
        """Return the columns that are neither the user nor the time, with all names as the query gives them.

        Raises:
            StatementError: a column is missing, or its type cannot be used.
        """
        from ...histories.age import age_in_units
        from ...spark_types import type_words

        schema = self.schema(context)
        if twice := sorted(name for name, times in Counter(map(str.lower, schema.names)).items() if times > 1):
            raise StatementError(f"The query returns two columns {twice[0]}; rename one with AS.")
        kinds = {field.name.lower(): field.type for field in schema}
        for column in (self.partition, self.order):
            if column.value.lower() not in kinds:
                raise absent("column", column.value, schema.names, column.position)
        by, order = self.partition.value, self.order.value
        user, time = kinds[by.lower()], kinds[order.lower()]
        if not (pa.types.is_string(user) or pa.types.is_integer(user)):
            message = f"PARTITION BY takes a text or a whole number, {by} is {type_words(user)}."
            raise StatementError(message, self.partition.position)
        if not (pa.types.is_timestamp(time) or pa.types.is_date(time) or pa.types.is_integer(time)):
            message = f"ORDER BY takes a timestamp, date or whole number, {order} is {type_words(time)}."
            raise StatementError(message, self.order.position)
        if self.within is not None:
            age_in_units(self.within, time)
        values = tuple(name for name in schema.names if name.lower() not in (by.lower(), order.lower()))
        if not values:
            raise StatementError(f"The query needs a column other than {by} and {order}, to remember.")
        return values

    def schema(self, context: StatementContext) -> pa.Schema:
        if self.stream is not None:
            source = opened(self.stream.relation, context.models.warehouse, False)
            splits = source.news({})
            if not splits:
                raise StatementError(f"Nothing has arrived in {source.name} yet. CREATE HISTORY once something has.")
            return source.scan(self.stream.query.query, splits).schema
        with self.query.expanded(context) as passage, passage.locating():
            return context.engine.schema(passage.text)


@dataclass(frozen=True)
class RefreshHistory:
    """New events are added; with `every`, repeatedly after so many seconds."""

    name: str
    every: float | None

    def run(self, context: StatementContext) -> pa.Table:
        histories = StoredHistories(context.models.warehouse)
        return refreshed(histories, histories.definition(self.name), context, self.every)


@dataclass(frozen=True)
class DropHistory:
    """A history is removed, with its versions."""

    name: str
    if_exists: bool

    def run(self, context: StatementContext) -> None:
        histories = StoredHistories(context.models.warehouse)
        if not self.if_exists or self.name.lower() in histories.names():
            histories.drop(self.name)


@dataclass(frozen=True)
class ShowHistories:
    """The histories of the warehouse."""

    def run(self, context: StatementContext) -> pa.Table:
        histories = StoredHistories(context.models.warehouse)
        found: list[tuple[str, HistoryVersion | None]] = []
        for name in histories.names():
            try:
                version = histories.newest(name)
            except ModelError as error:  # it concerns this one alone
                context.reporter.note(f"History {name}: {error}")
                found.append((name, None))
            else:
                found += [(name, version)] if version is not None else []
        return listed(found)


@dataclass(frozen=True)
class DescribeHistory:
    """What a history is."""

    name: str

    def run(self, context: StatementContext) -> pa.Table:
        histories = StoredHistories(context.models.warehouse)
        definition, version = histories.definition(self.name), histories.newest(self.name)
        properties: Mapping[str, Any] = {
            "history": definition.name,
            "statement": definition.statement,
            "partition by": definition.partition,
            "order by": definition.order,
            "values": ", ".join(definition.values),
            "keep last": definition.keep,
            "within": definition.within,
            "version": None if version is None else version.number,
            "events": None if version is None else version.rows,
            "position": None if version is None or not version.position else dict(version.position),
        }
        shown = {name: str(value) for name, value in properties.items() if value is not None}
        return pa.table({"property": list(shown), "value": list(shown.values())})


def refreshed(
    histories: StoredHistories, definition: HistoryDefinition, context: StatementContext, every: float | None
) -> pa.Table:
    """Publish a version with new events; where there are none, the newest one stays.

    Args:
        every: repeat after so many seconds, until asked to stop; None: once.
    """
    name = definition.name
    with histories.changing(name):
        histories.waited(name, 0)  # an earlier request to stop does not count
        before = histories.newest(name)
        version = published(histories, definition, context)
        if before is not None and version.number == before.number:
            context.reporter.note(f"Nothing has arrived since version {before.number} of history {name}.")
        if every is not None:
            context.reporter.note(f"Publishing history {name} every {every:g} s; STOP HISTORY {name} ends it.")
            stopped = False
            while not stopped:
                stopped = histories.waited(name, every)
                version = published(histories, definition, context)
    return listed([(name, version)])


def published(histories: StoredHistories, definition: HistoryDefinition, context: StatementContext) -> HistoryVersion:
    """Publish a version with new events, or return the newest one where there are none; under `changing`."""
    from ...engines.spark_sql.passage import Passage
    from ...histories.building import publish
    from ...histories.deleting import pending, without_deleted

    query = Query.of(Passage.of(definition.query))
    stream = streams.stream_in(query)
    before = histories.newest(definition.name)
    if before is not None and pending(histories, definition.name, before):
        before = without_deleted(histories, definition, context.engine, before)
    with histories.draft(definition.name) as draft:
        if stream is None:
            with query.expanded(context) as passage, passage.locating():
                context.engine.stage(passage.text, draft / "events")
            new = sorted((draft / "events").glob("*.parquet"))
            histories.leave_out(definition, new)
            return publish(histories, definition, context.engine, draft, None, new, {})
        taken = take(stream, before, draft, context)
        if taken is None:
            assert before is not None  # CREATE has found something
            return before
        histories.leave_out(definition, taken[0])
        return publish(histories, definition, context.engine, draft, before, *taken)


def take(
    stream: streams.Streamed, before: HistoryVersion | None, draft: Path, context: StatementContext
) -> tuple[list[Path], Mapping[str, Mapping[str, Any]]] | None:
    """Write new events of a stream beside the previous version's events; None where there are none.

    Returns:
        The file of the new events, and the positions of streams after them.
    """
    import pyarrow.parquet as pq

    from ...engines.parquet import ROW_GROUP_ROWS

    source = opened(stream.relation, context.models.warehouse, False)
    positions = {} if before is None else before.position
    position = positions.get(source.name, {})
    splits = source.news(position)
    if not splits:
        return None
    number = 0 if before is None else link_events(before.events, draft)
    (draft / "events").mkdir(exist_ok=True)
    path = draft / "events" / event_file(number)
    scan = source.scan(stream.query.query, splits)
    with pq.ParquetWriter(path, scan.schema, compression="zstd") as writer:
        for split in splits:
            if split.rows:
                for table in scan.read(split, scan.schema.names, ROW_GROUP_ROWS):
                    writer.write_table(decoded(table).cast(scan.schema))
    return [path], {**positions, source.name: source.after(position, splits)}


def listed(found: Sequence[tuple[str, HistoryVersion | None]]) -> pa.Table:
    from datetime import datetime

    rows = [
        {"history": name} if v is None else
        {"history": name, "version": v.number, "events": v.rows, "kept": v.kept, "users": v.users,
         "published": datetime.fromisoformat(v.created)}
        for name, v in found
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, SCHEMA)


def parse_create(cursor: Cursor) -> CreateHistory:
    first = cursor.index - 2
    name = cursor.identifier("a name for the history")
    cursor.expect("AS")
    start, last = cursor.index, None
    depth = 0
    for index in range(start, len(cursor.tokens)):
        depth += (cursor.tokens[index].text == "(") - (cursor.tokens[index].text == ")")
        cursor.index = index
        if depth == 0 and cursor.peek("PARTITION", "BY"):
            last = index
    if last is None or last == start:
        cursor.index = len(cursor.tokens)
        raise cursor.expected("a query and PARTITION BY column ORDER BY column KEEP LAST n")
    query = Query.of(cursor.passage.cut(cursor.tokens[start].start, cursor.tokens[last - 1].end))
    cursor.index = last
    cursor.expect("PARTITION", "BY")
    partition = read_column(cursor)
    cursor.expect("ORDER", "BY")
    order = read_column(cursor)
    cursor.expect("KEEP", "LAST")
    position, keep = cursor.position(), cursor.integer("a number of events")
    if not 1 <= keep <= MOST:
        raise StatementError(f"KEEP LAST takes a number from 1 to {MOST:,}, got {keep}.", position)
    within = None
    if cursor.accept("WITHIN"):
        place = cursor.index
        while not cursor.at_end and not cursor.peek("PUBLISH"):
            cursor.index += 1
        within = re.sub(r"\s+", " ", cursor.span(place).text.upper()) if cursor.index > place else ""
    position, stream = cursor.position(), streams.stream_in(query)
    if (every := parse_every(cursor)) is not None and stream is None:
        raise StatementError("PUBLISH EVERY is for a history of a stream: SELECT ... FROM STREAM t.", position)
    return CreateHistory(name.lower(), cursor.span(first).text, query, stream, partition, order, keep, within, every)


def read_column(cursor: Cursor) -> Value:
    position = cursor.position()
    return Value(cursor.identifier("a column"), position)


def parse_refresh(cursor: Cursor) -> RefreshHistory:
    return RefreshHistory(cursor.identifier("the name of a history"), parse_every(cursor))


def parse_every(cursor: Cursor) -> float | None:
    """Return the seconds of PUBLISH EVERY; None where it is not there."""
    if not cursor.accept("PUBLISH"):
        return None
    position, found = cursor.position(), read_publish(cursor)
    if found.seconds is None:
        raise StatementError("A history is published every n SECONDS or MINUTES.", position)
    return found.seconds


def parse_drop(cursor: Cursor) -> DropHistory:
    if_exists = cursor.accept("IF", "EXISTS")
    return DropHistory(cursor.identifier("the name of a history"), if_exists)


CREATE_HISTORY = Statement(
    "CREATE HISTORY",
    "CREATE HISTORY name AS query\n  PARTITION BY column ORDER BY column KEEP LAST n [WITHIN INTERVAL n DAYS]\n"
    "  [PUBLISH EVERY n {SECONDS | MINUTES}]",
    "Keep the last events of each user, from a query or from a stream; see docs/histories.md.",
    parse_create,
)
REFRESH_HISTORY = Statement(
    "REFRESH HISTORY",
    "REFRESH HISTORY name [PUBLISH EVERY n {SECONDS | MINUTES}]",
    "Publish a version of a history with what its query returns now, or what has arrived in its stream, each event once.",
    parse_refresh,
)
DROP_HISTORY = Statement("DROP HISTORY", "DROP HISTORY [IF EXISTS] name", "Remove a history.", parse_drop)
SHOW_HISTORIES = Statement(
    "SHOW HISTORIES", "SHOW HISTORIES", "List the histories, and the newest version of each.", lambda cursor: ShowHistories()
)
DESCRIBE_HISTORY = Statement(
    "DESCRIBE HISTORY",
    "DESCRIBE HISTORY name",
    "Show what a history keeps, and up to which position.",
    lambda cursor: DescribeHistory(cursor.identifier("the name of a history")),
)
