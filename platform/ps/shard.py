"""A shard: one server of the parameter server, with its slices of every table. It applies one push at a time."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ..errors import TrainingError
from ..operators.step_rates import StepRates
from .keys import NUM_SLICES
from .messages import NO_MOMENTS, BatchId, Description, Gate, Keys, Mask, Pulled, Push, RefusedError, mean_of
from .moments import merged
from .passes import clear
from .rows.watch import Watch
from .snapshot import CHECKPOINTS, LEAST_KEPT_BYTES, MOST_KEPT, Records, Snapshot, cancelled, state_of
from .sweep import Sweep
from .watermarks import Run, RunRecord, Watermarks

if TYPE_CHECKING:  # whose arithmetic is JAX
    from .compiled.updates import RowUpdates
    from .dense import ShardDense
    from .table import Table

READ_SECONDS = 30.0


class Shard:
    """The tables and dense parameters of one server.

    Args:
        tables: empty ones; see tables_of.
        dense: its dense parameters.
        slot_name: slot number -> name, for messages.

    Attributes:
        tables: rows, by the name of the first of the algorithm's tables that they are of, in its order; the first ones decide
            for all which keys have rows.
        moments: of the continuous slots; the first shard's alone has any.
        watermarks: which batches it has applied; None: it applies all that come.
        pass_number: the pass that operators which count by pass are in.
        rates: what optimizers' steps are multiplied by, where the training paces them.
        updates: what is applied to rows every so many batches, and at the end of passes; None: nothing.
    """

    def __init__(self, tables: Mapping[str, Table], dense: ShardDense, slot_name: Callable[[int], str]) -> None:
        self.tables = tables
        self._sweeps = {name: Sweep(table) for name, table in self.tables.items()}
        self.dense = dense
        self.moments = NO_MOMENTS
        self.watermarks: Watermarks | None = None
        self.now, self.pass_number = 0, 0
        self.rates = StepRates()
        self.updates: RowUpdates | None = None
        self.examples, self.positives = 0, 0.0
        self.reports: dict[str, float] = {}
        self._slot_name = slot_name
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._read = threading.Condition(self._lock)  # notified when a running snapshot was read further

    @property
    def first(self) -> Table:
        """The table that decides which keys have rows."""
        return next(iter(self.tables.values()))

    def pull(self, keys: Keys, size: int) -> Pulled:
        """Return the rows of unique keys, padded to `size`, and the dense parameters; creates no row."""
        pulled = self.pull_dense()
        gone: Mask | None = None
        for name, table in self.tables.items():
            weights, updates, offered, gone = table.pull(keys, size, self.now, gone)
            pulled.weights.update(weights)
            if updates is not None:
                pulled.updates[name] = updates
            if offered is not None:
                pulled.offered[name] = offered
        return pulled

    def pull_dense(self) -> Pulled:
        """Return what a pull returns but for rows."""
        return Pulled({}, {}, self.dense.pull(), self.moments, {}, self.dense.updates(), self.dense.version)

    def push(self, push: Push, dense: bool = True) -> Push:
        """Apply one batch, once: a batch that is already applied is acknowledged and ignored.

        Args:
            dense: or leave the dense parameters to `step`.

        Returns:
            What of it was applied, or is left to `step`.

        Raises:
            TrainingError: an operator that is set to fail on violations found one; names slot and key.
            GapError, EpochError: the batch is not the next one of its turn, or its driver is replaced.
        """
        with self._lock:
            if self._snapshot is not None:
                self._wait_for_room(push.touched.batch)
            if self.watermarks is None:
                self._apply(push, dense)
            elif due := self.watermarks.due(push.touched.batch):
                push = self.watermarks.part(push, due)
                self._apply(push, dense)
                self.watermarks.advance(push.touched.batch, due)
                if self.updates is not None:
                    self._update({run: self.updates.after(run.batches) for run in due})
            else:
                push = push._replace(dense={})
            return push

    def end_pass(self, number: int) -> None:
        """Apply what updates rows at the end of a pass, once: where it has been, nothing happens."""
        if self.updates is None or self.watermarks is None:
            return
        with self._between_pushes():
            runs = self.watermarks.unended(number)
            self.watermarks.end(number, runs)
            self._update(dict.fromkeys(runs, self.updates.of_passes))

    def apply(self, updates: RowUpdates, numbers: tuple[int, ...]) -> None:
        """Apply updates to all rows, by their numbers, between two pushes."""
        with self._between_pushes():
            self._collect()
            for name, table in self.tables.items():
                self._evict(name, updates.apply(table, numbers, [range(NUM_SLICES)], self.now))

    @contextmanager
    def _between_pushes(self) -> Iterator[None]:
        """Let no push be applied for the length of a block, which changes all rows: a snapshot that is read is waited for."""
        with self._lock:
            self._read.wait_for(lambda: self._snapshot is None, READ_SECONDS)
            self._cancel()
            yield

    def _update(self, due: Mapping[Run, Sequence[int]]) -> None:
        """Apply updates to the rows of runs, by their numbers, which are the same for most."""
        for chosen in dict.fromkeys(tuple(numbers) for numbers in due.values() if numbers):
            slices = [run.slices for run, numbers in due.items() if tuple(numbers) == chosen]
            self._collect()
            assert self.updates is not None
            for name, table in self.tables.items():
                self._evict(name, self.updates.apply(table, chosen, slices, self.now))

    def step(self, pushes: Sequence[Push]) -> None:
        """Change dense parameters once, by the mean gradient of the examples of pushes that `push` has left to it.

        Raises:
            TrainingError: an operator that is set to fail on violations found one.
        """
        with self._lock:
            self._push_dense(mean_of(pushes))

    def _push_dense(self, push: Push) -> None:
        self._report(self.dense.push(push.dense, self.now, push.dense_updates, push.dense_weights))

    def _apply(self, push: Push, dense: bool) -> None:
        self.now = max(self.now, push.touched.time_seconds)
        self.count(push.touched.examples, push.touched.positives)
        self._pace(push.touched.batch)
        gate: Gate | None = None
        for name, table in self.tables.items():
            try:
                updates = push.updates.get(name)
                report, gate = table.push(push.touched, updates, push.weights, push.gradients, self.now, gate)
            except RefusedError as error:
                key = error.key - (1 << 64) if error.key >> 63 else error.key
                raise TrainingError(
                    f"The update of key {key}, slot {self._slot_name(error.slot)}, is beyond the limits of safety, which "
                    "is set to fail. Look at that feature's data, or set on_violation to 'clip' or 'skip'."
                ) from error
            self._report(report)
        self._sweep(len(push.touched.keys), gate)
        if dense:
            self._push_dense(push)
        if len(self.moments.count):
            self.moments = merged(self.moments, push.moments)

    def _pace(self, batch: BatchId) -> None:
        """Let optimizers go at the rate of a batch."""
        self.dense.rate = rate = self.rates.at(batch.pass_number, batch.split, batch.batch)
        for table in self.tables.values():
            table.rate = rate

    def holding(self, name: str) -> Table:
        """Return the rows of one of the algorithm's tables."""
        return next(table for table in self.tables.values() if name in table.programs.tables)

    def progress(self) -> tuple[RunRecord, ...]:
        """Return how far it has come in each turn; nothing where it applies all that come."""
        with self._lock:
            return self.watermarks.entries() if self.watermarks is not None else ()

    def pending(self, reader: int) -> int:
        """Return how many rows a snapshot for a reader would be of that is not asked to be full."""
        with self._lock:
            return sum(table.store.pending(reader) for table in self.tables.values())

    def snapshot(self, full: bool, reader: int = CHECKPOINTS) -> Snapshot:
        """Begin to read the shard as it is now; an earlier snapshot that is not read to its end is cancelled.

        Args:
            full: with all rows; else with the rows that changed since the previous snapshot for the same reader, as far as that
                is known.
        """
        with self._lock:
            self._cancel()
            self._snapshot = Snapshot(self, state_of(self, full, reader))
            return self._snapshot

    def take(self, snapshot: Snapshot, table: str, records: Records) -> int:
        """Read the next records of a snapshot of this shard; see Store.take.

        Raises:
            CheckpointError: it was cancelled.
        """
        with self._lock:
            if self._snapshot is not snapshot:
                raise cancelled()
            taken = self.tables[table].store.take(records)
            self._read.notify_all()
            return taken

    def cancel(self, snapshot: Snapshot | None = None) -> None:
        """Cancel the running snapshot, or this one if it is running."""
        with self._lock:
            if snapshot is None or snapshot is self._snapshot:
                self._cancel()

    def _cancel(self) -> None:
        if self._snapshot is not None:
            self._snapshot = None
            for table in self.tables.values():
                table.store.cancel_snapshot()
            self._read.notify_all()

    def _wait_for_room(self, batch: BatchId) -> None:
        """Delay a push while much of what pushes changed is kept for a snapshot, or all rows are updated after it; at last give
        the snapshot up."""
        most = max(MOST_KEPT * self.memory_bytes, LEAST_KEPT_BYTES)

        def room() -> bool:
            return self._snapshot is None or (self._kept_bytes <= most and not self._updates_after(batch))

        if not self._read.wait_for(room, READ_SECONDS):
            self._cancel()

    def _updates_after(self, batch: BatchId) -> bool:
        """Return whether rows are updated after a batch."""
        updates, watermarks = self.updates, self.watermarks
        if updates is None or watermarks is None:
            return False
        return any(updates.after(run.batches + 1) for run in watermarks.due(batch))

    @property
    def _kept_bytes(self) -> int:
        return sum(table.store.kept_bytes for table in self.tables.values())

    def leave(self, worker: int) -> None:
        """Note that a worker pushes no more; only a gang acts on it."""

    def describe(self) -> Description:
        """Return what it holds."""
        with self._lock:
            watches = [table.watch for table in self.tables.values() if table.watch]
            low, high = min((w.low for w in watches), default=math.inf), max((w.high for w in watches), default=-math.inf)
            return Description(len(self), self.memory_bytes, self.now, dict(self.reports), self.moments, low, high)

    def watch(self) -> None:
        """Track the range of weights from now on."""
        with self._lock:
            for table in self.tables.values():
                table.watch = Watch()
            self._collect()

    def collect(self) -> None:
        """Remove every row that has ended."""
        with self._lock:
            self._collect()

    def _collect(self) -> None:
        for name, sweep in self._sweeps.items():
            if sweep.wanted:
                self._evict(name, sweep.all(self.now))

    def _sweep(self, pushed: int, gate: Gate | None) -> None:
        """Visit some rows, as many as a push of so many keys makes due."""
        started = 0 if gate is None else int(np.count_nonzero(gate.fresh & ~gate.shut))
        for name, sweep in self._sweeps.items():
            if sweep.wanted:
                self._evict(name, sweep.pushed(pushed, started, self.now))

    def _evict(self, name: str, keys: Keys) -> None:
        """Remove rows that have ended; a key's row in the first table takes those in the others with it."""
        if not len(keys):
            return
        first = self.tables[name].first is None
        with self.first.lock:
            for table in self.tables.values() if first else (self.tables[name],):
                table.store.evict(keys)
        if first:
            self._report({"expired": float(len(keys))})

    def compiled(self, seconds: float) -> None:
        """Count a program that was compiled for it."""
        self._report({"compilations": 1.0, "compile_seconds": seconds})

    def _report(self, report: Mapping[str, float]) -> None:
        for counted, value in report.items():
            self.reports[counted] = self.reports.get(counted, 0.0) + value

    def count(self, examples: int, positives: float) -> None:
        """Count examples and those with a positive label, which give the base rate."""
        self.examples, self.positives = self.examples + examples, self.positives + positives
        for table in self.tables.values():
            table.base_rate, table.examples = self.positives / max(self.examples, 1), self.examples

    def clear_pass(self) -> None:
        """Put what operators count by pass, and when rows were last seen, back to zero; a part of beginning a pass."""
        with self._lock:
            self._collect()
            for table in self.tables.values():
                clear(table, self.now)

    def begin_pass(self, number: int, now: int, examples: int, positives: float) -> None:
        """Count from now on what belongs to a pass.

        Args:
            now, examples, positives: what the training began with.
        """
        with self._lock:
            self.now, self.pass_number, self.examples, self.positives = now, number, 0, 0.0
            self.count(examples, positives)
            self.dense.restart(now)
            for table in self.tables.values():
                table.since = now

    def __len__(self) -> int:
        return max(len(table) for table in self.tables.values())

    @property
    def memory_bytes(self) -> int:
        return sum(table.memory_bytes for table in self.tables.values())
