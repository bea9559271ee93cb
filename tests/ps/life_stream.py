"""A model that learns from a stream: its versions are continued, checkpointed, lost and recovered, on any number of shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from tests.ps.plain_life import Event
from tests.ps.test_table import NO_DENSE
from tests.training.test_checkpoint_files import taken
from xpsql.platform.input.columns import Columns
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.client import LocalClient
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.lifecycle_table import tables_of
from xpsql.platform.ps.messages import BatchId, Push, Touched
from xpsql.platform.ps.placement import slices_of
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.watermarks import Watermarks
from xpsql.platform.training.checkpoints.files import restore
from xpsql.platform.training.row_files.rows import load, save
from xpsql.warehouse.entries import LearnedEntry, TableEntry
from xpsql.warehouse.files import VersionFiles
from xpsql.warehouse.manifest import Manifest
from xpsql.warehouse.storage import Storage
from xpsql.warehouse.trainings.checkpoints import Checkpoint, Checkpoints
from xpsql.warehouse.version import Version

SIZE = 16
EXAMPLES = 10
COLUMNS = Columns((), ("label",), None, "ts", None, (), True)

Move = Literal["none", "checkpoint", "continue", "recover"]


class Batch(NamedTuple):
    """One push: one event for each of its keys; the newest TIME; how many of its EXAMPLES are positive."""

    events: list[Event]
    time: int
    positives: int


def new(programs: Sequence[Programs], num_shards: int) -> LocalClient:
    return LocalClient([Shard(tables_of(programs, Store), NO_DENSE, str) for _ in range(num_shards)])


def push(client: LocalClient, batch: Batch, number: int) -> None:
    """Push a batch as the one of that number."""
    events = batch.events
    keys = np.array([event.key for event in events], np.uint64)
    counted = [np.array([getattr(event, name) for event in events], np.uint32) for name in ("count", "clicks")]
    slots = np.array([event.slot for event in events], np.uint16)
    touched = Touched(keys, slots, *counted, batch.time, BatchId(0, 0, 0, number), EXAMPLES, batch.positives)
    updates = client.pull(keys, SIZE).updates
    gradients = {}
    for table in client.shards[0].tables.values():
        for name, programs in table.programs.tables.items():
            gradients[name] = np.zeros((SIZE, programs.spec.dim), np.float32)
            gradients[name][: len(events)] = np.array([[event.gradient] for event in events])
    client.push(Push(touched, updates, gradients))


class Stream:
    """Learns batch by batch; between two, its shards may end and others, of another number, go on.

    Args:
        folder: for versions and checkpoints.

    Attributes:
        client: of the shards as they are now.
        batches: what the version in training has learned.
    """

    def __init__(self, programs: Sequence[Programs], num_shards: int, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._parent: Version | None = None
        self._newest: Checkpoint | None = None
        self._chain: tuple[str, ...] = ()
        self.batches: list[Batch] = []
        self.client = self._begun(num_shards)

    def move(self, move: Move, num_shards: int) -> None:
        """Let something happen between two batches.

        checkpoint: one is taken, a full one first, then what changed.
        continue: the version is written, and another one goes on from it with new data, on so many shards.
        recover: all shards are lost. So many others go on from the newest checkpoint, or from the beginning of the version
            without one, and all batches come again, those that the checkpoint has too.
        """
        if move == "checkpoint":
            self._checkpoint()
        elif move == "continue":
            self._continue(num_shards)
        elif move == "recover":
            self._recover(num_shards)

    def push(self, batch: Batch) -> int:
        """Learn from a batch; returns its number in the training of this version."""
        push(self.client, batch, len(self.batches))
        self.batches.append(batch)
        return len(self.batches) - 1

    @property
    def _place(self) -> Storage:
        return Storage(str(self._folder / f"checkpoints{0 if self._parent is None else self._parent.number}"))

    def _begun(self, num_shards: int) -> LocalClient:
        client = new(self._programs, num_shards)
        for number, shard in enumerate(client.shards):
            shard.watermarks = Watermarks.fresh(slices_of(number, num_shards), (), 0)
        if self._parent is not None:
            load(dict(enumerate(client.shards)), num_shards, self._parent, COLUMNS, {})
        return client

    def _checkpoint(self) -> None:
        number = 1 + (0 if self._newest is None else self._newest.number)
        shards = dict(enumerate(self.client.shards))
        self._newest = taken(shards, self._place, number, not self._chain, self._chain)
        self._chain = (*self._chain, self._newest.name)

    def _recover(self, num_shards: int) -> None:
        batches, self.batches, self._chain = self.batches, [], ()
        self.client = self._begun(num_shards)
        if self._newest is not None:
            self.client = new(self._programs, num_shards)
            restore(dict(enumerate(self.client.shards)), num_shards, Checkpoints(self._place), self._newest, epoch=0)
        for batch in batches:
            self.push(batch)

    def _continue(self, num_shards: int) -> None:
        number = 1 + (0 if self._parent is None else self._parent.number)
        shards, first = dict(enumerate(self.client.shards)), self.client.shards[0]
        files = VersionFiles(self._folder / f"v{number}")
        entries = tuple(TableEntry(p.spec.name, p.spec.dim, p.read_dims) for p in self._programs)
        save(shards, len(shards), files, entries)
        manifest = Manifest(
            version=number,
            tables=entries,
            learned=LearnedEntry(examples_total=first.examples, base_rate=first.positives / max(first.examples, 1)),
            statistics={"now": first.now, "scaler": first.moments._asdict(), "scaled": []},
        )
        self._parent, self._newest, self._chain, self.batches = Version(files.folder, manifest, True), None, (), []
        self.client = self._begun(num_shards)
