"""The columns of rows that operators count by pass: how a pass begins with what the training began with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .compiled.ladder import rung
from .messages import Keys
from .rows.base import MISSING

if TYPE_CHECKING:
    from .table import Table

LAST_SEEN = "last_seen"
PIECE_ROWS = 1 << 16


def counted(table: Table) -> dict[str, int]:
    """Return the columns of a table's rows that operators count by pass, with their floats."""
    programs = table.programs
    return {one.columns[name]: one.dims[name] for one in programs.tables.values() for name in one.chain.per_pass}


def clear(table: Table, now: int) -> None:
    """Bring all rows up to now, then put what is counted by pass, and when rows were last seen, to zero. To do it again
    changes nothing."""
    size = min(rung(len(table)), PIECE_ROWS)
    for start in range(0, table.store.end, size):
        keys, rows = table.store.scan(start, start + size)
        for one in table.programs.tables.values():
            if one.chain.needs_time:
                _, read = table.piece(table.store, one, keys, rows, now, size)
                table.put(rows, {column: read[own] for own, column in one.columns.items()})
        table.put(rows, zeros(table, len(rows)))
    if table.trials is not None:
        keys, rows = table.trials.store.keys()
        table.trials.put(rows, zeros(table, len(rows)))


def put_back(table: Table, keys: Keys, columns: Mapping[str, NDArray[np.generic]] | None) -> None:
    """Give rows, of those keys that have one, what was counted before the training; None: nothing was."""
    rows = table.store.lookup(keys)
    there = rows != MISSING
    if columns is None:
        table.put(rows[there], zeros(table, int(there.sum())))
    else:
        table.put(rows[there], {name: values[there] for name, values in columns.items()})


def zeros(table: Table, n: int) -> dict[str, NDArray[np.generic]]:
    """Return what a new row has of these columns."""
    none: dict[str, NDArray[np.generic]] = {name: np.zeros((n, dim), np.float32) for name, dim in counted(table).items()}
    return none | {LAST_SEEN: np.zeros(n, np.uint32)}
