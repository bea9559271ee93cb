"""What clients ask of a service, whatever its shards are in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from ...warehouse.durable import storing
from ..errors import LostError, StatementError, Subject, TrainingError
from ..parts import FunctionUse
from .checkpointed import ServiceCheckpoint
from .committed import commit
from .functions import updates_of
from .held import Answer, Ask, ServiceBegin, summed
from .opening import OpenedService

ATTEMPTS = 3
CLIENTS = 1 << 16
"""So many clients may join in an epoch: each has a turn of its own, so that no push counts twice."""


class ServiceLink(Protocol):
    """How a client reaches its service, for all but pulls and pushes."""

    def order(self, what: str, values: Mapping[str, Any]) -> Answer:
        """Ask for something, and return the answer.

        Raises:
            XpsqlError: the service's, or it is lost or does not answer in time.
        """
        ...

    def close(self) -> None:
        """Ask no more."""
        ...


class ParameterService:
    """What clients ask of a service; `order` is called from any thread, and carries out one order at a time.

    Args:
        ask: gives orders to the processes that hold its shards.
    """

    def __init__(self, opened: OpenedService, ask: Ask) -> None:
        self.opened, self.epoch = opened, opened.epoch
        self._ask, self._lock = ask, threading.RLock()
        self._restored = opened.restored
        self._applied: dict[str, Mapping[str, int]] = {} if opened.restored is None else dict(opened.restored.applied)
        self._number = 0
        self._clients, self._joined, self._lost = 0, dict[int, str](), ""
        self._orders: dict[str, Callable[..., Answer]] = {
            "join": self.join,
            "leave": self.leave,
            "checkpoint": self.checkpoint,
            "commit": self.commit,
            "apply": self.apply,
            "standing": self.standing,
            "status": self.status,
        }

    def order(self, what: str, values: Mapping[str, Any]) -> Answer:
        """See ServiceLink.

        Raises:
            TrainingError: there is no such order.
        """
        if what not in self._orders:
            raise TrainingError(f"A parameter server has no order {what!r}; use one version of xpsql everywhere.")
        with self._lock:
            return self._orders[what](**values)

    def close(self) -> None:
        """See ServiceLink."""

    def join(self, who: str) -> Answer:
        """Let a client take part, and tell it of the tables, the epoch and its own number."""
        self._clients += 1
        if self._clients >= CLIENTS:
            raise TrainingError(f"{CLIENTS:,} clients have joined {self.opened.name}; stop it and start it again.")
        number = self.epoch * CLIENTS + self._clients
        self._joined[number] = who
        files = {} if self._restored is None else self.opened.folder.checkpoints.files_of(self._restored)
        return {
            "declared": self.opened.declared.as_json(),
            "shards": self.opened.shards,
            "epoch": self.epoch,
            "number": number,
            "files": {name: str(path) for name, path in files.items()},
            "lost": self._lost,
        }

    def leave(self, number: int) -> Answer:
        """Note that a client has ended."""
        self.forget(number)
        return {}

    def forget(self, number: int) -> None:
        """Note that a client is gone."""
        self._joined.pop(number, None)

    def restart(self, why: str) -> str:
        """Begin a new epoch with new shards, and return what is lost, in words.

        Raises:
            CheckpointError: the newest checkpoint is damaged.
        """
        with self._lock:
            held = self.opened
            restored = held.folder.checkpoints.newest()
            epoch = held.epoch + 1
            source = ServiceBegin(held.source.folder, {}, version=held.source.version)
            if restored is not None:
                source = ServiceBegin(held.source.folder, restored.parts, restored.epoch, restored.number)
            held.folder.write(held.declared, held.shards, epoch)
            self.opened, self.epoch, self._restored = (
                held._replace(epoch=epoch, source=source, restored=restored),
                epoch,
                restored,
            )
            self._clients, self._joined = 0, {}
            self._applied = {} if restored is None else dict(restored.applied)
            back = "what they began with" if restored is None else f"checkpoint {restored.name}"
            self._lost = f"Shards were lost: {why} Rows went back to {back}; what was pushed since is gone."
            return self._lost

    def checkpoint(self, files: Mapping[str, str] | None) -> Answer:
        """Take a checkpoint. With files None the holder wants it: none is taken where a client keeps files with checkpoints,
        since rows would be newer than what belongs to them."""
        if files is None and self._restored is not None and self._restored.files:
            return {"name": ""}
        return {"name": self._take(files or {}).name}

    def _take(self, files: Mapping[str, str]) -> ServiceCheckpoint:
        paths = {name: Path(path) for name, path in files.items()}
        self._restored = self.opened.folder.checkpoints.take(self._ask, self.epoch, paths, self._applied)
        return self._restored

    def apply(self, update: str, options: Mapping[str, Any], once: str, files: Mapping[str, str] | None) -> Answer:
        """Apply an update to all rows, and take a checkpoint of what it leaves: nothing goes back behind it.

        Args:
            once: a name; where an update of that name was applied before, nothing happens. Empty: none.

        Raises:
            StatementError: it cannot be made, would make numbers none, or checkpoints have files and none are given.
        """
        newest = self._restored
        if newest is not None and newest.files and files is None:
            raise StatementError(
                f"Checkpoints of {self.opened.name} have files ({', '.join(newest.files)}), and apply takes one: give it files "
                "of this moment, too."
            )
        if not once or once not in self._applied:
            done = self._applied_now(update, options)
            if once:
                self._applied[once] = done
        elif newest is not None and once in newest.applied:
            return self._applied[once]
        self._take(files or {})
        return self._applied[once] if once else done

    def _applied_now(self, update: str, options: Mapping[str, Any]) -> dict[str, int]:
        """Apply an update to all rows, and return how many it changes and removes.

        Raises:
            StatementError: it cannot be made, or would make numbers none.
            LostError: a shard is lost.
        """
        updates_of(self.opened.declared, FunctionUse(update, options))
        values = {"update": update, "options": options}
        found = self._ask("try", values)
        if wrong := sorted({table for one in found for table in one["wrong"]}):
            raise StatementError(
                f"{update} makes numbers of table {', '.join(wrong)} NaN or infinite; nothing was applied. Scale by less, or "
                "look at the update.",
                subject=Subject("APPLY"),
            )
        self._number += 1
        for left in reversed(range(ATTEMPTS)):  # a shard that has it passes it over
            try:
                self._ask("apply", {**values, "number": self._number})
                break
            except LostError:
                if not left:
                    raise
        return {name: sum(one[name] for one in found) for name in ("changed", "removed")}

    def commit(self, model: str, files: Mapping[str, str], examples: int, figures: Mapping[str, float]) -> Answer:
        """Make a version of a model; see committed.py."""
        held, paths = self.opened, {name: Path(path) for name, path in files.items()}
        number = commit(held.models, model, held.name, held.declared, held.shards, self._ask, paths, examples, figures)
        return {"version": number}

    def standing(self) -> Answer:
        """Return how many batches of each turn every shard has: the least, as (pass, split, batches)."""
        runs = [{(p, s): n for p, s, n in lines} for one in self._ask("standing", {}) for lines in one["runs"]]
        least = {turn: min(run.get(turn, 0) for run in runs) for turn in runs[0]} if runs else {}
        return {"turns": [[p, s, n] for (p, s), n in sorted(least.items())]}

    def status(self) -> Answer:
        """Return what it holds."""
        parts = self._ask("describe", {})
        tables = {}
        for name, table in self.opened.declared.tables.items():
            own = [one["tables"][name] for one in parts]
            tables[name] = {
                "dim": table.dim,
                "operators": table.operators,
                "rows": sum(one["rows"] for one in own),
                "memory_bytes": sum(one["memory_bytes"] for one in own),
                "reports": summed([one["reports"] for one in own]),
            }
        newest = self._restored
        return {
            "name": self.opened.name,
            "shards": self.opened.shards,
            "epoch": self.epoch,
            "clients": len(self._joined),
            "lost": self._lost,
            "checkpoint": None if newest is None else newest.name,
            "tables": tables,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with storing(self.opened.folder.path):
            self.opened.lock.release()
