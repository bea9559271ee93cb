"""The shards that a process of a service holds, and what a service asks of them: checkpoints, rows of a version, counts.

Each declared table has shards of its own, whose keys are its own. An order is a word and values as JSON has them, so that it is
the same in this process and through a connection.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from ...warehouse.entries import TableEntry
from ...warehouse.files import VersionFiles
from ...warehouse.storage import Storage
from ...warehouse.trainings.checkpoints import Checkpoint, CheckpointPart, Checkpoints, name_of
from ...warehouse.version import Version
from ..errors import TrainingError
from ..input.columns import Columns, columns_from
from ..parts import FunctionUse
from ..ps.compiled.updates import RowUpdates
from ..ps.dense import DenseProgram
from ..ps.lifecycle_table import tables_of
from ..ps.placement import slices_of
from ..ps.rows.native import native_rows
from ..ps.shard import Shard
from ..ps.watermarks import Watermarks
from ..training.checkpoints.files import restore, write
from ..training.row_files.rows import load, save
from .declared import DeclaredTables
from .functions import updates_of

Answer = Mapping[str, Any]
Ask = Callable[[str, Mapping[str, Any]], list[Answer]]
"""Gives an order to every process of a service, and returns their answers."""


class ServiceBegin(NamedTuple):
    """What the rows of a service begin with.

    Attributes:
        folder: of its checkpoints.
        parts: by table, what each old shard wrote, as CheckpointPart gives it; empty where there is no checkpoint.
        epoch, number: of that checkpoint.
        version: the folder of the version that it continues; None: it begins with nothing.
    """

    folder: str
    parts: Mapping[str, Sequence[str]]
    epoch: int = 0
    number: int = 0
    version: Version | None = None


class HeldShards:
    """Some shards of every table of a service.

    Args:
        numbers: which ones this process has.
        num_shards: how many each table has.
        epoch: of the service; pushes of earlier ones are refused.

    Attributes:
        tables: table -> number -> shard.
    """

    def __init__(self, declared: DeclaredTables, numbers: Sequence[int], num_shards: int, epoch: int) -> None:
        self.declared, self._num_shards, self._epoch = declared, num_shards, epoch
        names = {number: slot for slot, number in declared.numbers.items()}
        self.tables = {
            table: {number: new_table_shard(declared, table, number, num_shards, epoch, names) for number in numbers}
            for table in declared.tables
        }
        self._orders: dict[str, Callable[..., Answer]] = {
            "write": self.write,
            "save": self.save,
            "describe": self.describe,
            "standing": self.standing,
            "try": self.tried,
            "apply": self.apply,
        }
        self._updates: dict[str, dict[str, RowUpdates]] = {}
        self._number, self._applying = 0, threading.Lock()

    def begin(self, source: ServiceBegin) -> None:
        """Put into the shards what the service begins with.

        Raises:
            CheckpointError: a file of the checkpoint is damaged or missing.
        """
        for name, shards in self.tables.items():
            if name in source.parts:
                place = Checkpoints(Storage(str(Path(source.folder) / name)))
                parts = tuple(CheckpointPart.of(text) for text in source.parts[name])
                checkpoint = Checkpoint(source.epoch, source.number, parts=parts)
                restore(shards, self._num_shards, place, checkpoint, self._epoch)
            elif source.version is not None:
                load(shards, self._num_shards, version_of_table(source.version, name), no_columns(source.version), {})

    def answer(self, order: str, values: Mapping[str, Any]) -> Answer:
        """Carry out an order.

        Raises:
            TrainingError: there is no such order.
        """
        if order not in self._orders:
            raise TrainingError(f"A shard of a parameter server has no order {order!r}; use one version of xpsql everywhere.")
        return self._orders[order](**values)

    def write(self, folder: str, epoch: int, number: int) -> Answer:
        """Write a checkpoint's part of these shards, all of one moment as far as no push is on its way."""
        parts: dict[str, list[str]] = {}
        with ExitStack() as stack:
            taken = {
                name: {at: stack.enter_context(shard.snapshot(full=True)) for at, shard in shards.items()}
                for name, shards in self.tables.items()
            }
            for name, snapshots in taken.items():
                place = Storage(str(Path(folder) / name))
                written = (write(place, name_of(epoch, number), at, self._num_shards, one) for at, one in snapshots.items())
                parts[name] = [part.text() for part in written]
        return {"parts": parts}

    def save(self, folder: str) -> Answer:
        """Write the rows as those of a version in a folder."""
        files, rows, weights = VersionFiles(Path(folder)), {}, []
        for name, shards in self.tables.items():
            saved = save(shards, self._num_shards, files, [table_entry(self.declared, name)])
            rows[name] = saved.rows
            weights.append([saved.min_weight, saved.max_weight])
        low, high = (min(one[0] for one in weights), max(one[1] for one in weights))
        now = max(shard.now for shards in self.tables.values() for shard in shards.values())
        first = [shards[0] for shards in self.tables.values() if 0 in shards]
        seen = [sum(shard.examples for shard in first), sum(shard.positives for shard in first)]
        return {"rows": rows, "weights": [low, high], "now": now, "seen": seen}

    def tried(self, update: str, options: Mapping[str, Any]) -> Answer:
        """Return what an update would do: rows that it changes and removes, and the tables where numbers become none."""
        updates = self._made(update, options)
        found = [updates[name].tried(shard.first, shard.now) for name in updates for shard in self.tables[name].values()]
        wrong = [one.table for one in found if not one.finite]
        return {"changed": sum(one.changed for one in found), "removed": sum(one.removed for one in found), "wrong": wrong}

    def apply(self, update: str, options: Mapping[str, Any], number: int) -> Answer:
        """Apply an update to all rows, once: one of the number of the last one is passed over."""
        with self._applying:  # asked again, it waits for the first answer
            if number != self._number:
                self._number = number
                for name, updates in self._made(update, options).items():
                    for shard in self.tables[name].values():
                        shard.apply(updates, (0,))
        return {}

    def _made(self, update: str, options: Mapping[str, Any]) -> dict[str, RowUpdates]:
        key = json.dumps([update, options])
        if key not in self._updates:
            self._updates = {key: updates_of(self.declared, FunctionUse(update, options))}
        return self._updates[key]

    def describe(self) -> Answer:
        """Return what the shards hold, by table."""
        found = {}
        for name, shards in self.tables.items():
            described = [shard.describe() for shard in shards.values()]
            found[name] = {
                "rows": sum(one.rows for one in described),
                "memory_bytes": sum(one.memory_bytes for one in described),
                "reports": summed(one.reports for one in described),
            }
        return {"tables": found}

    def standing(self) -> Answer:
        """Return how many batches of each turn every shard has applied, as (pass, split, batches)."""
        runs = [entry.turns.tolist() for shards in self.tables.values() for s in shards.values() for entry in s.progress()]
        return {"runs": runs}


def summed(parts: Iterator[Mapping[str, float]] | Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the sums of counts by name."""
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + value
    return total


def new_table_shard(
    declared: DeclaredTables, table: str, number: int, num_shards: int, epoch: int, names: Mapping[int, str]
) -> Shard:
    """Return an empty shard of a table."""
    programs = declared.programs(table)
    dense = DenseProgram((), None, declared.seed).part(number, num_shards)
    shard = Shard(tables_of([programs], native_rows), dense, lambda slot: names.get(slot, str(slot)))
    shard.watermarks = Watermarks.fresh(slices_of(number, num_shards), (), epoch)
    return shard


def table_entry(declared: DeclaredTables, table: str) -> TableEntry:
    """Return a table as a manifest describes it."""
    programs = declared.programs(table)
    return TableEntry(table, programs.spec.dim, programs.read_dims)


def version_of_table(version: Version, table: str) -> Version:
    """Return a version as if it had one table alone."""
    manifest = dataclasses.replace(version.manifest, tables=(version.manifest.table(table),))
    return dataclasses.replace(version, manifest=manifest)


def no_columns(version: Version) -> Columns:
    """Return the columns of a version of rows alone."""
    return columns_from(version.manifest)
