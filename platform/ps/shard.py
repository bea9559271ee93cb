"""A shard: one server of the parameter server, with its slices of every table. It applies one request at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ..errors import TrainingError
from .dense import Array, Arrays, Dense
from .programs import Programs
from .table import Counts, Floats, Keys, RefusedError, Table, Touched

NO_WEIGHTS: Mapping[str, Floats] = MappingProxyType({})
NO_DENSE: Arrays = MappingProxyType({})


class Pulled(NamedTuple):
    """What a pull returns.

    Attributes:
        weights: table name -> float32[size, dim], zeros past the last key.
        updates: table name -> uint32[n].
        dense: dense parameter -> its values, float32; never changed in place.
    """

    weights: dict[str, Floats]
    updates: dict[str, Counts]
    dense: dict[str, Array]


class Push(NamedTuple):
    """One batch's updates for the keys and dense parameters of one shard.

    Attributes:
        touched: keys, slots, counts, clicks and time.
        updates: table name -> uint32[n], the updates as pulled.
        gradients: table name -> float32[size, dim], size >= n, summed over examples.
        weights: table name -> float32[size, dim], as pulled; of the tables whose chain uses them (`Programs.needs_pulled`).
        dense: dense parameter -> gradient in its shape, averaged over examples; those of other shards are ignored.
    """

    touched: Touched
    updates: Mapping[str, Counts]
    gradients: Mapping[str, Floats]
    weights: Mapping[str, Floats] = NO_WEIGHTS
    dense: Arrays = NO_DENSE


class Shard:
    """The tables and dense parameters of one server.

    Args:
        programs: of each of its tables.
        dense: its dense parameters.
        slot_name: slot number -> name, for messages.
    """

    def __init__(self, programs: Sequence[Programs], dense: Dense, slot_name: Callable[[int], str]) -> None:
        self.tables = {one.spec.name: Table(one) for one in programs}
        self.dense = dense
        self.now = 0
        self.reports: dict[str, float] = {}
        self._slot_name = slot_name
        self._lock = threading.Lock()

    def pull(self, keys: Keys, size: int) -> Pulled:
        """Return the rows of unique keys, padded to `size`, and the dense parameters; creates no row."""
        with self._lock:
            pulled = {name: table.pull(keys, size, self.now) for name, table in self.tables.items()}
            dense = self.dense.pull()
        return Pulled({name: w for name, (w, _) in pulled.items()}, {name: u for name, (_, u) in pulled.items()}, dense)

    def push(self, push: Push) -> None:
        """Apply one batch.

        Raises:
            TrainingError: an operator that is set to fail on violations found one; names slot and key.
        """
        with self._lock:
            self.now = max(self.now, push.touched.time_seconds)
            for name, table in self.tables.items():
                try:
                    pulled = push.weights[name] if table.programs.needs_pulled else None
                    report = table.push(push.touched, push.updates[name], pulled, push.gradients[name], self.now)
                except RefusedError as error:
                    key = error.key - (1 << 64) if error.key >> 63 else error.key
                    raise TrainingError(
                        f"The update of key {key}, slot {self._slot_name(error.slot)}, is beyond the limits of safety, which "
                        "is set to fail. Look at that feature's data, or set on_violation to 'clip' or 'skip'."
                    ) from error
                for counted, value in report.items():
                    self.reports[counted] = self.reports.get(counted, 0.0) + value
            self.dense.push(push.dense)

    def __len__(self) -> int:
        return max(len(table) for table in self.tables.values())

    @property
    def memory_bytes(self) -> int:
        return sum(table.store.memory_bytes for table in self.tables.values())
