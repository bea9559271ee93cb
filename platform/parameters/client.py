"""What a program has of a parameter server: tables that it pulls from and pushes to, checkpoints and commits."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

import numpy as np
import pyarrow as pa

from .. import parts
from ..errors import OptionError, StatementError, XpsqlError, suggestion
from ..forks import REMEDY
from ..ps.keyed import KeyedRequest
from ..ps.keys import Keys
from ..ps.messages import BatchId, Push, Touched
from .ahead import AheadRows, Needs, pulled_ahead
from .batches import BatchPlan, Files, batches
from .contact import ServiceContact
from .functions import FoldedState, FoldRequest, used
from .links import Connected, Connects
from .server_table import ServerTable
from .updates import RowUpdate, joined, nothing, refuse_pickle
from .values import Floats

if TYPE_CHECKING:
    from ..session import Session

T = TypeVar("T")

OWN = 1 << 30
"""In place of a pass: the turns of clients whose batches nobody names."""


class ParameterServer:
    """A parameter server, as a client sees it; a context manager. ps["item"] is a table.

    Pushes go at once. In a `step` they are kept, and go together at its end, as one update of each row: see xpsql.torch.step.

    Args:
        name: of the service.
        connects: joins it.

    Attributes:
        declared: its tables.
        files: those that were kept with the checkpoint that it was restored from, by name.
        lost: what was lost with shards, in words; empty where nothing was.
        contact: how other processes reach it, for tasks: xpsql.ps.connect(contact); None of one in this process.
    """

    def __init__(self, name: str, connects: Connects, contact: ServiceContact | None = None) -> None:
        self.name, self._connects, self.contact = name, connects, contact
        self._process, self._lock = os.getpid(), threading.RLock()
        self._kept: list[dict[str, list[RowUpdate]]] = []
        self._pulled_ahead: dict[str, AheadRows] = {}
        self._connected: Connected | None = connects()
        self.declared, self.files, self.lost = self._connected.declared, self._connected.files, self._connected.lost
        self._pushed = dict.fromkeys(self.declared.tables, 0)
        self._tables = {name: ServerTable(self, name, table) for name, table in self.declared.tables.items()}

    def __getitem__(self, table: str) -> ServerTable:
        """Return a table.

        Raises:
            StatementError: there is none of that name.
        """
        if table not in self._tables:
            raise StatementError(f"Parameter server {self.name} has no table {table!r}.{suggestion(table, list(self._tables))}")
        return self._tables[table]

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables."""
        return tuple(self._tables)

    def checkpoint(self, files: Mapping[str, str | Path] | None = None) -> str:
        """Have the shards write what they hold, for the next start or after a loss, and return the checkpoint's name.

        Args:
            files: kept beside the rows, by name: what belongs to them, such as the dense part of a network.

        Raises:
            ModelError: the disk is full, or not writable.
        """
        given = {name: str(Path(path).resolve()) for name, path in (files or {}).items()}
        return str(self.order("checkpoint", {"files": given})["name"])

    def commit(
        self,
        model: str,
        files: Mapping[str, str | Path] | None = None,
        examples: int = 0,
        figures: Mapping[str, float] | None = None,
    ) -> int:
        """Make a version of a model of all rows, and return its number.

        Args:
            files: kept with it, by name.
            examples: that it has learned from.
            figures: its metrics, such as {"auc": 0.78}.

        Raises:
            ModelError: another process changes the model, or the disk is full.
            StatementError: the model has other tables.
        """
        given = {name: str(Path(path).resolve()) for name, path in (files or {}).items()}
        values = {"model": model, "files": given, "examples": examples, "figures": dict(figures or {})}
        return int(self.order("commit", values)["version"])

    def batches(
        self,
        query: str,
        batch_size: int = 1024,
        passes: int = 1,
        run: str = "",
        rank: int = 0,
        world: int = 1,
        checkpoint_seconds: float | None = 60.0,
        files: Files | None = None,
        session: Session | None = None,
        ahead: Needs[pa.RecordBatch] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a query, each exactly once: a call after a restart begins after the last batch that was pushed.

        What is pushed while a batch is worked on is kept, and goes as one update when the next one is asked for: a loop that
        ends early pushes nothing of the batch that it had, which comes again.

        Args:
            query: whose rows are kept in the service's folder, so that each call sees the same.
            batch_size: rows of a batch.
            passes: over all rows.
            run: another name learns the same query once more.
            rank, world: of several processes, each learns every `world`-th batch.
            checkpoint_seconds: between checkpoints, which rank 0 takes between two batches; None: none.
            files: returns what is kept with them: lambda: {"dense.pt": xpsql.torch.saved(model)}.
            session: that runs the query; None: one of the warehouse.
            ahead: says which rows a batch needs, which are pulled while the one before is worked on; see `ahead`.

        Raises:
            StatementError: the query cannot run, or a number cannot be.
            LostError: shards were lost; reconnect(), and a further call goes on from the newest checkpoint.
        """
        plan = BatchPlan(query, run, batch_size, passes, rank, world, checkpoint_seconds, files)
        return batches(self, self._now().folder, plan, session, ahead)

    def apply(
        self, update: str, /, once: str = "", files: Mapping[str, str | Path] | None = None, **options: object
    ) -> Mapping[str, int]:
        """Apply an update of ALTER MODEL ... APPLY to all rows, and return how many it has changed and removed.

        It acts on all tables, or on the one that its option `table` names. A checkpoint is taken of what it leaves, so that
        nothing that is restored goes back behind it.

        Args:
            update: its name, one that SHOW UPDATES lists.
            once: a name, such as "pass 1": an update of that name is applied once, also where a loop begins again.
            files: kept with the checkpoint; needed where checkpoints have some.
            options: of the update: ps.apply("clip", max=3).

        Raises:
            StatementError: there is no such update, it does not take these options, or would make numbers NaN.
            LostError: a shard is lost: rows are those of the newest checkpoint, and this update is in it or is not.
        """
        use = used(parts.UPDATE, update, options)
        given = None if files is None else {name: str(Path(path).resolve()) for name, path in files.items()}
        values = {"update": use.name, "options": dict(use.options), "once": once, "files": given}
        return {name: int(count) for name, count in self.order("apply", values).items()}

    def ahead(self, items: Iterable[T], needs: Needs[T], depth: int = 1) -> Iterator[T]:
        """Yield items, and pull the rows of the next ones while one is worked on: xpsql.torch.needed says which.

        What was pulled lacks what is pushed after it, so rows are up to `depth` steps older. A push ends its use.

        Args:
            items: batches, of any kind: a DataLoader. ps.batches looks ahead itself, by its argument `ahead`.
            needs: item -> the keys of each table, as the work on it pulls them: {"item": ps["item"].keys(values)}.
            depth: items ahead.

        Raises:
            OptionError: depth is below 1.
            LostError: a shard is lost.
        """
        if depth < 1:
            raise OptionError(f"ps.ahead expects depth, batches ahead, of at least 1; got {depth!r}.")
        own = self._now() if self.contact is None else self._connects()  # links of the thread's own
        try:
            yield from pulled_ahead(items, needs, depth, own.clients, self._offer)
        finally:
            if self.contact is not None:
                own.close()

    def _offer(self, rows: Mapping[str, AheadRows]) -> None:
        self._pulled_ahead = dict(rows)

    def status(self) -> Mapping[str, Any]:
        """Return what it holds: rows and memory by table, clients, the newest checkpoint."""
        return self.order("status", {})

    def order(self, what: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the service for something."""
        with self._lock:
            return self._now().link.order(what, values)

    def pull(self, table: str, keys: Keys, size: int) -> Floats:
        """Return the rows of distinct keys of a table, float32[n, dim] with n from their number to `size`."""
        there = self._pulled_ahead.get(table)
        if there is not None and np.array_equal(there.keys, keys):
            return there.rows
        with self._lock:
            return self._now().clients[table].pull(keys, size).weights[table]

    def fold_rows(self, request: KeyedRequest) -> Floats:
        """Return what a reading says of the rows of distinct keys."""
        with self._lock:
            return self._now().clients[request.table].fold_rows(request)

    def fold(self, table: str, request: FoldRequest) -> list[FoldedState]:
        """Return the states of a fold over the rows of each shard."""
        with self._lock:
            return self._now().clients[table].fold(request)

    def update(self, table: str, update: RowUpdate) -> None:
        """Push to a table: now, or at the end of the step that is open."""
        if self._kept:
            self._kept[-1].setdefault(table, []).append(update)
        else:
            with self._lock:
                self._push(table, joined([update]), None)

    @contextlib.contextmanager
    def keeping(self) -> Iterator[dict[str, list[RowUpdate]]]:
        """Keep pushes for the length of a block, by table."""
        kept: dict[str, list[RowUpdate]] = {}
        self._kept.append(kept)
        try:
            yield kept
        finally:
            self._kept = [one for one in self._kept if one is not kept]

    def push_batch(self, kept: Mapping[str, list[RowUpdate]], batch: BatchId, examples: int) -> None:
        """Push what belongs to a batch that has a name, once, to every table, whether or not it touches one."""
        with self._lock:
            for table in self._tables:
                self._push(table, joined(kept.get(table, [])), batch, examples)

    def push_kept(self, kept: Mapping[str, list[RowUpdate]]) -> None:
        """Push what a step has kept; in a step within another one, hand it on."""
        for table, updates in kept.items():
            if updates:
                self.update(table, joined(updates) or updates[0])

    def _push(self, table: str, update: RowUpdate | None, batch: BatchId | None, examples: int = 0) -> None:
        now = self._now()
        own = BatchId(now.epoch, OWN, now.number, self._pushed[table])
        batch = own if batch is None else batch._replace(epoch=now.epoch)
        update = update or nothing(self._tables[table].dim)
        touched = Touched(update.keys, update.slots, update.counts, update.clicks, 0, batch, examples, 0)
        self._pulled_ahead.pop(table, None)
        now.clients[table].push(Push(touched, {}, {table: self._tables[table].padded(update)}))
        if batch.pass_number == OWN:
            self._pushed[table] += 1

    def _now(self) -> Connected:
        """Return the links of this client.

        Raises:
            XpsqlError: it is closed, or another process's.
        """
        if self._process != os.getpid():
            raise XpsqlError(
                f"Parameter server {self.name} was reached by process {self._process}, from which this one was forked. "
                f"{REMEDY} xpsql.ps.connect() in it reaches the server."
            )
        if self._connected is None:
            raise XpsqlError(f"Parameter server {self.name} was closed here. xpsql.ps.connect() reaches it again.")
        return self._connected

    def reconnect(self) -> None:
        """Join again, after a loss: rows are those of the newest checkpoint then, where shards were lost.

        Raises:
            XpsqlError: it cannot be reached.
        """
        with self._lock:
            self._leave()
            self._pulled_ahead = {}
            self._connected = self._connects()
            if self._connected.declared != self.declared:
                raise StatementError(f"Parameter server {self.name} has other tables now. xpsql.ps.connect() reads them.")
            self.files, self.lost = self._connected.files, self._connected.lost
            self._pushed = dict.fromkeys(self._tables, 0)

    def close(self) -> None:
        """Leave the service; what it holds stays there. Closing again does nothing."""
        with self._lock:
            self._leave()
            self._connects = self._now  # which refuses; nothing of the server is kept

    def _leave(self) -> None:
        if self._connected is not None and self._process == os.getpid():
            before, self._connected = self._connected, None
            before.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<parameter server {self.name}>"

    def __reduce__(self) -> NoReturn:
        refuse_pickle(self)
