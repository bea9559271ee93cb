"""What users' events ask of a model that reads them: the rows for which items are ranked, and what came before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...algorithms.base import Match
from ..engines.staging import whole_users
from ..errors import StatementError
from ..input.columns import Columns
from ..input.kinds.events import MOMENT, USER
from ..input.runs.event_order import column_of, in_order
from ..input.slots import matched
from .scorer import Scorer
from .top_k import Best, ExcludedItems, Scores, best

if TYPE_CHECKING:
    from ..engines.base import Engine

ROWS = 32_768
"""Events that are read at once, and all others of their last user."""


class UserQuestions(NamedTuple):
    """What some users ask.

    Attributes:
        rows: their newest events, one a user, as the result shows them.
        events: what the model reads, all events of these users, and one after them where the newest is one that was.
        places: int64[users], which of the events asks.
        had: the column of items before it, and whose each is: (items, int64[n] users).
    """

    rows: pa.Table
    events: pa.Table
    places: NDArray[np.int64]
    had: tuple[pa.ChunkedArray, NDArray[np.int64]]


class UserEvents:
    """The events of a query, user by user.

    Args:
        schema: of the query.
        shown: the columns of a user's newest event that the result has.
        takes: the newest event of a user is what is to be found; else what comes after it, but where its item is NULL.

    Raises:
        StatementError: the query or ITEMS lacks a column of the model, or has it as another kind.
    """

    def __init__(
        self, columns: Columns, match: Match, engine: Engine, query: str, schema: pa.Schema, shown: pa.Schema, takes: bool
    ) -> None:
        user, time = (column_of(columns, role) for role in (USER.role, MOMENT.role))
        assert user is not None
        assert time is not None
        self._engine, self._shown, self._takes = engine, shown, takes
        self._inputs = matched(columns, schema, columns.inputs)
        self._user, self._time, self._item = self._inputs[user], self._inputs[time], self._inputs[match.item_slots[0]]
        self._model_time = time
        self._query = in_order(query, schema, self._user, self._time)

    def blocks(self) -> Iterator[UserQuestions]:
        """Yield what users ask, some at once."""
        tables = (pa.Table.from_batches([batch]) for batch in self._engine.reader(self._query))
        for table in whole_users(tables, self._user, ROWS):
            yield self._asked(table.combine_chunks())

    def _asked(self, table: pa.Table) -> UserQuestions:
        users = table.column(self._user).combine_chunks()
        codes = users.dictionary_encode(null_encoding="encode") if not pa.types.is_dictionary(users.type) else users
        numbers = codes.indices.to_numpy(zero_copy_only=False)
        ends = np.append(np.flatnonzero(numbers[1:] != numbers[:-1]), len(numbers) - 1)
        owner = np.searchsorted(ends, np.arange(len(numbers)))
        items = table.column(self._item)
        asks = items.is_null().to_numpy()[ends] | self._takes
        events = table.select(list(self._inputs.values())).rename_columns(list(self._inputs))
        later = ends[~asks]
        further = self._after(events.take(pa.array(later)))
        places = ends.copy()
        places[~asks] = len(table) + np.arange(len(later))
        before = np.ones(len(table), np.bool_)
        before[ends[asks]] = False
        rows = table.select(self._shown.names).take(pa.array(ends))
        return UserQuestions(rows, pa.concat_tables([events, further]), places, (items.filter(pa.array(before)), owner[before]))

    def _after(self, newest: pa.Table) -> pa.Table:
        """Return rows of the same users a moment later, with nothing else."""
        user = next(name for name, own in self._inputs.items() if own == self._user)
        kept = {user: newest.column(user), self._model_time: later(newest.column(self._model_time))}
        columns = [kept.get(field.name, pa.nulls(len(newest), field.type)) for field in newest.schema]
        return pa.table(columns, schema=newest.schema)


class NextItems:
    """Multiplies what is known of users with the vectors of items.

    Args:
        items: what the model reads of items, under its names.
    """

    def __init__(self, scorer: Scorer, match: Match, items: pa.Table, columns: Columns) -> None:
        self._scorer, self._match, self._items = scorer, match, items
        self._columns = columns
        self._vectors: Scores | None = None

    def best(self, asked: UserQuestions, k: int, had: ExcludedItems) -> Best:
        """Return the k best items of each user."""
        vectors = self._vectors_of_items(asked.events.schema) if self._vectors is None else self._vectors
        self._vectors = vectors
        known = self._scorer.scored(asked.events).outputs[self._match.query][asked.places]
        return best(lambda start, stop: known @ vectors[start:stop].T, len(asked.places), len(vectors), k, had)

    def _vectors_of_items(self, schema: pa.Schema) -> Scores:
        """Return the vectors of items, each as the event of a user of its own, of whom nothing else is known."""
        n, roles = len(self._items), {slot.column: slot.role for slot in self._columns.slots}
        numbers = pa.array(np.arange(n))
        zeros = pa.array(np.zeros(n, np.int64))

        def column(field: pa.Field) -> pa.Array | pa.ChunkedArray:
            if field.name in self._items.column_names:
                return self._items.column(field.name)
            if roles[field.name] == USER.role:
                return numbers.cast(pa.string())
            return zeros if roles[field.name] == MOMENT.role else pa.nulls(n, field.type)

        table = pa.table([column(field) for field in schema], names=schema.names)
        return self._scorer.scored(table).outputs[self._match.item]


def later(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times one second later, dates one day; NULL stays NULL."""
    kind = times.type
    if pa.types.is_integer(kind):
        return pc.add(times, pa.scalar(1, kind))
    if pa.types.is_date(kind):
        days = times.cast(pa.date32()).cast(pa.int32())
        return pc.add(days, pa.scalar(1, pa.int32())).cast(pa.date32()).cast(kind)
    micros = pa.timestamp("us", kind.tz)
    return pc.add(times.cast(micros, safe=False).cast(pa.int64()), 1_000_000).cast(micros).cast(kind)


def of_items(columns: Columns, match: Match, items: pa.Schema) -> Mapping[str, str]:
    """Return the columns of ITEMS that describe an item: the model's name -> theirs.

    Raises:
        StatementError: ITEMS lacks one.
    """
    names = list(dict.fromkeys(slot.column for slot in columns.slots if slot.name in match.item_slots))
    there = {name.lower() for name in items.names}
    if missing := [name for name in names if name.lower() not in there]:
        raise StatementError(f"The model learned {missing[0]} of the item; return it by ITEMS, too.")
    return matched(columns, items, names)


def shown_of(columns: Columns, match: Match, schema: pa.Schema, items: pa.Schema) -> pa.Schema:
    """Return the columns of a user's newest event that a result has: those that tell nothing of what happened."""
    happened = {slot.column.lower() for slot in columns.slots if slot.role not in (USER.role, MOMENT.role)}
    return pa.schema([field for field in schema if field.name.lower() not in happened | {items.names[0].lower()}])


def excluded_events(exclude: str | None, item: pa.Field) -> tuple[str, ...]:
    """Return the column of EXCLUDE, which leaves out the items of the user's own events; empty without.

    Raises:
        StatementError: it names another one.
    """
    if exclude is not None and exclude.lower() != item.name.lower():
        raise StatementError(
            f"EXCLUDE names {exclude!r}; of a model of users' events it names {item.name}, the item of events, and leaves out "
            "those that the user had."
        )
    return () if exclude is None else (item.name,)
