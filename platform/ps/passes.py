"""The columns of rows that belong to one pass: how each pass begins with what the training began with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .compiled.aligned import split_keys
from .compiled.ladder import rung
from .messages import Keys
from .rows.base import MISSING

if TYPE_CHECKING:
    from .table import Table

LAST_SEEN = "last_seen"
PIECE_ROWS = 1 << 16


def of_pass(table: Table) -> dict[str, int]:
    """Return the columns of a table's rows that belong to one pass, with their floats."""
    programs = table.programs
    return {one.columns[name]: one.dims[name] for one in programs.tables.values() for name in one.chain.per_pass}


def clear(table: Table, now: int) -> None:
    """Bring all rows up to now, then put what belongs to a pass to what new rows have, and when rows were last seen to zero. To
    do it again changes nothing."""
    size = min(rung(len(table)), PIECE_ROWS)
    for start in range(0, table.store.end, size):
        keys, rows = table.store.scan(start, start + size)
        for one in table.programs.tables.values():
            if one.chain.needs_time:
                _, read = table.piece(table.store, one, keys, rows, now, size)
                table.put(rows, {column: read[own] for own, column in one.columns.items()})
        table.put(rows, beginning(table, keys))
    if table.trials is not None:
        keys, rows = table.trials.store.keys()
        table.trials.put(rows, beginning(table, keys))


def put_back(table: Table, keys: Keys, columns: Mapping[str, NDArray[np.generic]] | None) -> None:
    """Give rows, of those keys that have one, what they had of it before the training; None: they were not there."""
    rows = table.store.lookup(keys)
    there = rows != MISSING
    if columns is None:
        table.put(rows[there], beginning(table, keys[there]))
    else:
        table.put(rows[there], {name: values[there] for name, values in columns.items()})


def beginning(table: Table, keys: Keys) -> dict[str, NDArray[np.generic]]:
    """Return what new rows of these keys have of these columns."""
    n, initial = len(keys), table.programs.initial
    halves = split_keys(keys, rung(n))
    columns: dict[str, NDArray[np.generic]] = {}
    for name, dim in of_pass(table).items():
        columns[name] = np.asarray(initial[name](halves))[:n] if name in initial else np.zeros((n, dim), np.float32)
    return columns | {LAST_SEEN: np.zeros(n, np.uint32)}
