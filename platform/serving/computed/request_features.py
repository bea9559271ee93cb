"""Rows of requests whose features are computed without an engine: TRANSFORM by row programs, and the crosses of CROSS."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...input.columns import Columns
from ...input.kinds import kind_named
from ...input.kinds.base import BagKind
from ...input.slot import Slot
from ...input.transform import Transform
from ...row_programs.base import EXACT, Decimal, DoubtError, LacksError
from ...row_programs.compiling import COLUMNS, compiled
from ...row_programs.features import cross_text
from ..inputs import Input
from .typed_values import Reader, reader_of

MOST_VALUES = 4096
"""Combinations of a cross in a row."""
Row = dict[str, Any]
Values = Sequence[Any]


class AddedColumn(NamedTuple):
    """A column that is added to rows: its name, the places of the inputs that it reads, and its value of all inputs' values."""

    name: str
    reads: tuple[int, ...]
    compute: Callable[[Values], Any]


class RequestFeatures:
    """Adds the columns that a version computes to rows of requests. Threads may share it.

    Args:
        inputs: the columns of requests.
        features: the columns that are scored, as the engine makes them of these: their types are the programs', too.

    Attributes:
        names: of the columns that are added.
        most_rows: of a request that are computed one by one; for more a table of them costs less.

    Raises:
        LacksError: an expression, or a column that one reads, is none that programs have; its text says which.
    """

    most_rows = 1024

    def __init__(
        self, columns: Columns, inputs: Sequence[Input], features: Mapping[str, pa.DataType], transform: Transform | None
    ) -> None:
        self._inputs = inputs
        self._places = {column.name.lower(): place for place, column in enumerate(inputs)}
        self._transform = transform
        self._types = {column.name: column.type for column in inputs}
        needed = () if transform is None else [slot.column for slot in columns.slots if not slot.members]
        items = [name for name in dict.fromkeys(needed) if transform is not None and name.lower() in transform.computed]
        self._columns = [self._item(name, features[name]) for name in items]
        slots = {slot.name: slot for slot in columns.slots}
        self._columns += [
            self._cross(slot, [slots[name] for name in slot.members], columns.null_features) for slot in columns.crosses
        ]
        self.names = frozenset(column.name for column in self._columns)
        read = sorted({place for column in self._columns for place in column.reads})
        self._readers: list[tuple[int, str, Reader]] = [
            (place, inputs[place].name, reader_of(inputs[place].type)) for place in read
        ]

    def of(self, rows: list[Row], context: Row | None) -> tuple[list[Row], Row | None] | None:
        """Return rows, and what they have in common, with the columns that are computed; None where an engine must do it.

        Args:
            rows: as JSON has them, whose values are of their columns' own types.
        """
        if not 0 < len(rows) <= self.most_rows:
            return None
        values: list[Any] = [None] * len(self._inputs)
        shared = context or {}
        try:
            common = {place: read(shared[name]) for place, name, read in self._readers if name in shared}
            if any(self._inputs[place].name in rows[0] for place in common):
                return None  # in both, which is an error
            once = [column for column in self._columns if all(place in common for place in column.reads)]
            each = [column for column in self._columns if column not in once]
            own = [reader for reader in self._readers if reader[0] not in common]
            for place, value in common.items():
                values[place] = value
            context = {**shared, **{column.name: column.compute(values) for column in once}} if shared else None
            made = []
            for row in rows:
                for place, name, read in own:
                    values[place] = read(row[name])
                made.append({**row, **{column.name: column.compute(values) for column in each}})
        except (DoubtError, KeyError):  # a name that a row lacks, or writes in another case
            return None
        for column in each:
            if context:
                context.pop(column.name, None)
        for column in once:
            for row in made:
                row.pop(column.name, None)
        return made, context

    def _item(self, name: str, made: pa.DataType) -> AddedColumn:
        """Return the column of an item of TRANSFORM."""
        assert self._transform is not None
        item = self._transform.computed[name.lower()]
        try:
            program = compiled(item.sql, self._types)
        except LacksError as error:
            raise LacksError(f"TRANSFORM's {item.name} has {error}") from error
        reads = tuple(self._places[column.lower()] for column in item.reads)
        if isinstance(program.kind, Decimal) and made == pa.decimal128(*program.kind):
            of, number = program.compute, real_of(made)
            return AddedColumn(name, reads, lambda values: number(of(values)))
        if COLUMNS.get(made) != program.kind or pa.types.is_timestamp(made):
            raise LacksError(f"TRANSFORM's {item.name} has values of type {made}")
        compute = program.compute
        if pa.types.is_date(made):
            day = program.compute
            compute = lambda values: None if (found := day(values)) is None else found.isoformat()  # noqa: E731
        return AddedColumn(name, reads, compute)

    def _cross(self, slot: Slot, members: Sequence[Slot], null_features: bool) -> AddedColumn:
        """Return the column of a cross: a text, an array of texts, or their weights."""
        found = [self._member(member) for member in members]
        reads = tuple({place for column in found for place in column.reads})
        computes = [column.compute for column in found]
        if not any(isinstance(kind_named(member.kind), BagKind) for member in members):

            def text(values: Values) -> str | None:
                texts = [compute(values) for compute in computes]
                return None if not null_features and None in texts else cross_text(texts)

            return AddedColumn(slot.name, reads, text)
        bags = [isinstance(kind_named(member.kind), BagKind) for member in members]

        def combinations(values: Values) -> list[tuple[str, np.float32]]:
            texts = [compute(values) for compute in computes]
            entries = [
                found if bag else [] if found is None and not null_features else [(found, ONE)]
                for bag, found in zip(bags, texts, strict=True)
            ]
            if math.prod(map(len, entries)) > MOST_VALUES:
                raise DoubtError
            return [(cross_text([text for text, _ in pick]), weight_of(pick)) for pick in itertools.product(*entries)]

        if slot.kind != "weighted":
            return AddedColumn(slot.name, reads, lambda values: [text for text, _ in combinations(values)])

        def weights(values: Values) -> dict[str, float]:
            pairs = combinations(values)
            found = {text: float(weight) for text, weight in pairs}
            if len(found) < len(pairs):
                raise DoubtError
            return found

        return AddedColumn(slot.name, reads, weights)

    def _member(self, slot: Slot) -> AddedColumn:
        """Return the texts of a member of a cross: one, or those of a bag with their weights."""
        kind = kind_named(slot.kind)
        computed = {} if self._transform is None else self._transform.computed
        item = computed.get(slot.name.lower())
        if not isinstance(kind, BagKind):
            sql = f"`{slot.name.replace('`', '``')}`" if item is None else item.sql
            names = (slot.name,) if item is None else item.reads
            program = compiled(f"CAST({sql} AS STRING)", self._types)
            return AddedColumn(slot.name, tuple(self._places[name.lower()] for name in names), program.compute)
        if item is not None:
            whole = self._item(slot.name, pa.list_(pa.string()))
            return whole._replace(compute=lambda values: entries_of(whole.compute(values)))
        place = self._places[slot.name.lower()]
        return AddedColumn(slot.name, (place,), lambda values: entries_of(values[place]))


ONE = np.float32(1)


def weight_of(pick: Sequence[tuple[Any, np.float32]]) -> np.float32:
    """Return the product of weights, the last one first, as chunks have it."""
    weight = ONE
    for _, own in reversed(pick):
        weight = weight * own
    return weight


def entries_of(values: Any) -> list[tuple[str, np.float32]]:
    """Return the texts of an array or of a map of weights; NULLs and what has no finite weight are left out."""
    if values is None:
        return []
    pairs = values.items() if isinstance(values, dict) else ((value, 1.0) for value in values)
    found = []
    for value, weight in pairs:
        if value is None or weight is None:
            continue
        if type(value) not in (str, int) or type(weight) not in (float, int):
            raise DoubtError
        number = np.float32(weight)
        if math.isinf(number) != math.isinf(weight):
            raise DoubtError
        if math.isfinite(number):
            found.append((str(value), number))
    return found


def real_of(kind: pa.DataType) -> Callable[[int | None], float | None]:
    """Return the function that makes of a decimal's digits the double that Arrow makes of a column."""
    unit = float(f"1e-{kind.scale}")

    def real(digits: int | None) -> float | None:
        if digits is not None and not -EXACT < digits < EXACT:
            raise DoubtError
        return None if digits is None else digits * unit

    return real
