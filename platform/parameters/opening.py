"""Opening a service: its folder in the warehouse, the lock of its name, and what its rows begin with.

W/services/<name>/service.json    tables, shards, epoch
W/services/<name>/lock            one holder of a name
W/services/<name>/checkpoints/    see checkpointed.py
W/services/<name>/contact.json    how processes of this user reach it, mode 0600; see contact.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...warehouse.durable import make_folder, replace_text
from ...warehouse.locks import Lock, held
from ...warehouse.models import Models
from ..errors import ModelError, StatementError
from ..session import warehouse_path
from .checkpointed import ServiceCheckpoint, ServiceCheckpoints
from .declared import DeclaredTable, DeclaredTables, declared
from .held import ServiceBegin

FORMAT = 1
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
MOST_SHARDS = 1024


class ServiceFolder(NamedTuple):
    """The folder of a service."""

    path: Path

    @property
    def checkpoints(self) -> ServiceCheckpoints:
        return ServiceCheckpoints(self.path)

    @property
    def contact(self) -> Path:
        return self.path / "contact.json"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    def left_by(self, note: bytes) -> bool:
        """Return whether the holder that the lock's note named has ended: nobody reaches it, and the name is not its own."""
        return not self.contact.exists() and (self.lock.read_bytes() != note or not held(self.lock))

    def read(self) -> dict[str, Any] | None:
        """Return what service.json says; None where there is none.

        Raises:
            ModelError: it is damaged.
        """
        path = self.path / "service.json"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values["format"] != FORMAT:
                raise ValueError("it is of another version of xpsql")
            return dict(values)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ModelError(f"{path} is damaged: {error}. Remove {self.path} to begin anew.") from error

    def write(self, tables: DeclaredTables, shards: int, epoch: int) -> None:
        """Write service.json."""
        values = {"format": FORMAT, "shards": shards, "epoch": epoch, **tables.as_json()}
        replace_text(self.path / "service.json", json.dumps(values, indent=1) + "\n")


def folder_of(warehouse: str | Path, name: str) -> ServiceFolder:
    """Return the folder of a service, which may not be there.

    Raises:
        StatementError: no service can have this name, or no warehouse is there.
    """
    if not NAME.fullmatch(name):
        raise StatementError(f"A parameter server's name has letters, digits, _ and -; got {name!r}.")
    return ServiceFolder(warehouse_path(warehouse) / "services" / name)


class OpenedService(NamedTuple):
    """A service whose lock this process has, in a new epoch."""

    name: str
    folder: ServiceFolder
    models: Models
    declared: DeclaredTables
    shards: int
    epoch: int
    source: ServiceBegin
    restored: ServiceCheckpoint | None
    lock: Lock


def opened(
    warehouse: str | Path,
    name: str,
    tables: Mapping[str, DeclaredTable] | None,
    shards: int | None,
    seed: int,
    begins: str | None,
) -> OpenedService:
    """Take the lock of a service, and return what it goes on from: its newest checkpoint, a model's version, or nothing.

    Args:
        tables: None: those that it had.
        shards: None: as many as it had, or one.
        begins: a model that commit made, whose rows it begins with where it has no checkpoint.

    Raises:
        StatementError: tables that cannot be, other ones than a checkpoint has, or none.
        ModelError: another process holds the name, or the model is not there.
    """
    folder = folder_of(warehouse, name)
    if shards is not None and not 0 < shards <= MOST_SHARDS:
        raise StatementError(f"A parameter server has from 1 to {MOST_SHARDS} shards; got {shards}.")
    given = None if tables is None else declared(tables, seed)
    make_folder(folder.path)
    lock = taken(folder, name)
    try:
        known, restored = folder.read(), folder.checkpoints.newest()
        kept = None if known is None else DeclaredTables.of_json(known)
        used = given or kept
        if used is None:
            raise StatementError(
                f"Parameter server {name} is new, and needs tables: tables = {{'item': xpsql.ps.Table(dim=16)}}, or "
                "--table 'item: dim = 16' of xpsql ps start."
            )
        if restored is not None and kept is not None and used != kept:
            raise StatementError(
                f"Parameter server {name} has a checkpoint of the tables {text_of(kept)}, and these are {text_of(used)}. Leave "
                f"tables out to go on, or remove {folder.path} to begin anew."
            )
        num_shards = shards or (known or {}).get("shards") or 1
        epoch = 1 + int((known or {}).get("epoch", 0))
        models = Models(warehouse_path(warehouse))
        source = source_of(folder, restored, models, begins, used)
        folder.write(used, num_shards, epoch)
        return OpenedService(name, folder, models, used, num_shards, epoch, source, restored, lock)
    except BaseException:
        lock.release()
        raise


def taken(folder: ServiceFolder, name: str) -> Lock:
    """Return the lock of a service.

    Raises:
        ModelError: another process has it.
    """
    try:
        return Lock(folder.lock, "held")
    except BlockingIOError:
        try:
            who = f"process {json.loads(folder.lock.read_text())['process']}"
        except (OSError, ValueError, KeyError):
            who = "another process"
        raise ModelError(
            f"Parameter server {name} is held by {who}. xpsql.ps.connect reaches it; xpsql ps stop {name} ends it."
        ) from None


def text_of(tables: DeclaredTables) -> str:
    def one(name: str, table: DeclaredTable) -> str:
        slots = ", ".join(table.slots_of(name))
        return f"{name}: dim = {table.dim}, operators = ({table.operators}), slots = ({slots}), init = {table.init}"

    return "; ".join(one(name, table) for name, table in tables.tables.items()) + f" with seed {tables.seed}"


def source_of(
    folder: ServiceFolder, restored: ServiceCheckpoint | None, models: Models, begins: str | None, tables: DeclaredTables
) -> ServiceBegin:
    """Return what a service's rows begin with."""
    rows = str(folder.checkpoints.rows)
    if restored is not None:
        return ServiceBegin(rows, restored.parts, restored.epoch, restored.number)
    if begins is None:
        return ServiceBegin(rows, {})
    from .committed import check_same

    version = models.version(begins)
    check_same(version.manifest, begins, tables)
    return ServiceBegin(rows, {}, version=version)
