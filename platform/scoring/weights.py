"""The parameters of a version for readers: pulled, never pushed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...warehouse.dense import read_dense
from ..ps.messages import NO_MOMENTS, OFFERED, Array, Keys, Pulled, on_device
from ..ps.placement import shard_of, slices_of
from ..ps.rows.base import Rows
from ..ps.rows.native import native_rows
from ..training.row_files.columns import values

if TYPE_CHECKING:
    from ...warehouse.version import Version


WEIGHTS = "weights"


class Weights:
    """One server's part of a version, without the optimizer's state: by key weights and what operators offer; the first server
    has all dense parameters.

    Args:
        version: a trained one.
        number, num_servers: which of the servers; each has the keys of an equal run of the slices.
    """

    def __init__(self, version: Version, number: int, num_servers: int) -> None:
        tables = version.manifest.tables
        self._rows: dict[str, Rows] = {}
        self._dims = {table.name: table.dim for table in tables}
        self._offered = {table.name: table.columns[OFFERED] for table in tables if OFFERED in table.columns}
        self._dense: dict[str, Array] = {}
        if number == 0:
            stored, unused = read_dense(version.stored("dense"), "w"), version.manifest.train_only
            self._dense = on_device({name: array for (name, _), array in stored.items() if name not in unused})
        for name, dim in self._dims.items():
            dims = {"w": dim, **({OFFERED: self._offered[name]} if name in self._offered else {})}
            held = self._rows[name] = native_rows([(column, "float32", floats) for column, floats in dims.items()])
            for _, batch, gone in version.replayed({name: ["key", *dims]}, slices_of(number, num_servers)):
                keys, *columns = batch.columns
                hashed = keys.to_numpy().view(np.uint64)
                if gone:
                    held.evict(hashed)
                    continue
                arrays = [values(column).reshape(-1, floats) for column, floats in zip(columns, dims.values(), strict=True)]
                if num_servers > 1:
                    mine = shard_of(hashed, num_servers) == number
                    hashed, arrays = hashed[mine], [array[mine] for array in arrays]
                rows, _ = held.insert(hashed)
                held.scatter(rows, list(range(len(dims))), arrays)

    def pull(self, keys: Keys, size: int) -> Pulled:
        """Return the weights of unique keys, zeros for unknown keys; see Shard."""
        weights = {name: np.zeros((size, dim), np.float32) for name, dim in self._dims.items()}
        offered = {name: np.zeros((size, k), np.float32) for name, k in self._offered.items()}
        for name, held in self._rows.items():
            arrays = [by_table[name] for by_table in (weights, offered) if name in by_table]
            held.gather(held.lookup(keys), list(range(len(arrays))), arrays)
        return Pulled(weights, {}, self._dense, NO_MOMENTS, offered)


def stored(version: Version, table: str = WEIGHTS) -> tuple[NDArray[np.float32], Keys]:
    """Return the weights and keys of a version's rows in a table of one float a row."""
    batches, none = list(version.rows(table, ["key", "w"])), np.empty(0, np.int64)
    keys, weights = (np.concatenate([none, *(values(batch[name]) for batch in batches)]) for name in ("key", "w"))
    return weights.astype(np.float32), keys.view(np.uint64)
