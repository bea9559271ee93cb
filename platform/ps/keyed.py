"""Keyed reads: a few numbers of each row that is asked for, so that no rows travel."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import Subject
from ..functions import READINGS
from ..functions.base import KeyedReading, ReadingPart, RowTable
from ..options import parse, written
from .compiled.ladder import rung
from .messages import Floats, Keys
from .shard import Shard
from .transport.checks import check_names, check_shape, check_vector, refused
from .transport.wire import Handler, Method

if TYPE_CHECKING:  # whose arithmetic is JAX
    from .compiled.table_programs import Programs

MOST_ROWS = 1 << 16
"""Are in memory at once."""
KEPT = 64
Find = Callable[[str], ReadingPart | None]


class KeyedRequest(NamedTuple):
    """A request for what a reading says of rows.

    Attributes:
        keys: uint64[n], unique.
        table: the algorithm's table that they are of.
        reading: its name; options: as JSON.
        arrays: what it takes beside.
    """

    keys: Keys
    table: str
    reading: str
    options: str
    arrays: Mapping[str, Floats]


class KeyedAnswer(NamedTuple):
    """What a reading says: float32[n, width], in the order of the keys."""

    values: Floats


FOLD_ROWS = Method("fold rows", KeyedRequest, KeyedAnswer)


class ShardReadings:
    """What a shard answers to keyed reads: of each key what a pull of it would bring, read there.

    Args:
        find: returns the part of a name.
    """

    def __init__(self, shard: Shard, find: Find = READINGS.find) -> None:
        self._shard, self._find = shard, find
        self._made: dict[tuple[str, str, str], KeyedReading] = {}

    def answer(self, request: KeyedRequest) -> KeyedAnswer:
        """Return what a reading says of the rows of keys; a key without a row is read as a new row begins.

        Raises:
            TrainingError: there is no such table or reading, or arrays do not fit.
            OptionError: it does not take these options.
        """
        n = check_vector("keys", request.keys)
        reading = self._reading(request.table, request.reading, request.options)
        check_names(f"the arrays of {request.reading}", request.arrays, reading.arrays, reading.arrays)
        for name, shape in reading.arrays.items():
            check_shape(f"{name} of {request.reading}", request.arrays[name], shape)
        values = np.empty((n, reading.width), np.float32)
        for at in range(0, n, MOST_ROWS):
            keys = request.keys[at : at + MOST_ROWS]
            weights = self._shard.pull(keys, rung(len(keys))).weights[request.table][: len(keys)]
            found = reading.read(np.asarray(weights), request.arrays)
            check_shape(f"what {request.reading} returns", found, (len(keys), reading.width))
            values[at : at + len(keys)] = found
        return KeyedAnswer(values)

    def handler(self) -> Handler[KeyedRequest, KeyedAnswer]:
        """Return how a server answers them."""
        return Handler(FOLD_ROWS, self.answer)

    def _reading(self, table: str, name: str, options: str) -> KeyedReading:
        """Return a reading, made when it is first asked for; the last ones are kept."""
        key = table, name, options
        if key not in self._made:
            programs = {one: made for own in self._shard.tables.values() for one, made in own.programs.tables.items()}
            part = self._find(name)
            if table not in programs or part is None:
                raise refused("a reading of a table", f"one of this shard's ({', '.join(programs)})", f"{name} of {table}")
            given = parse(part.options, written(json.loads(options)), Subject.of_part("reading", name))
            self._made = dict([*self._made.items()][1 - KEPT :])
            self._made[key] = part.make(given, row_table_of(programs[table]))
        return self._made[key]


def row_table_of(programs: Programs) -> RowTable:
    """Return a table of a shard as functions see it."""
    spec = programs.spec
    return RowTable(spec.name, programs.read_dims, spec.slots, spec.init)
