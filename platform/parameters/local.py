"""A parameter server in this process: shards as objects."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from ..cores import cores
from ..training.compiled import limit_threads, prepare_jax, share_work
from .calls import LocalTable
from .client import ParameterServer
from .declared import DeclaredTable, DeclaredTables
from .held import HeldShards
from .links import Connected, who
from .opening import opened
from .service import ParameterService


def local(
    warehouse: str | Path,
    name: str,
    tables: Mapping[str, DeclaredTable] | None = None,
    shards: int | None = None,
    seed: int = 0,
    begins: str | None = None,
) -> ParameterServer:
    """Open a parameter server in this process; it goes on from its newest checkpoint. Closing it ends it: what was pushed
    since its last checkpoint is gone.

    Args:
        warehouse: the folder of tables and models, where checkpoints and commits go.
        name: one process holds a name at a time.
        tables: by name; None: those that it had.
        shards: its rows are cut into so many parts; 1 by default.
        seed: of what new rows begin with.
        begins: a model that `commit` made, whose rows a new server begins with.

    Raises:
        StatementError: tables that cannot be, or other ones than its checkpoint has.
        ModelError: another process holds the name.
        CheckpointError: its newest checkpoint is damaged.
    """
    limit_threads(1)
    share_work(cores())
    prepare_jax()
    held = opened(warehouse, name, tables, shards, seed, begins)
    try:
        holds = HeldShards(held.declared, range(held.shards), held.shards, held.epoch)
        holds.begin(held.source)
    except BaseException:
        held.lock.release()
        raise
    service = ParameterService(held, lambda order, values: [holds.answer(order, values)])
    return ParameterServer(name, functools.partial(joined_here, service, holds))


def joined_here(service: ParameterService, holds: HeldShards) -> Connected:
    """Return the links of a client in the process of the shards."""
    joined = service.order("join", {"who": who()})
    files = {name: Path(path) for name, path in joined["files"].items()}
    declared = DeclaredTables.of_json(joined["declared"])
    clients = {name: LocalTable(declared, name, list(shards.values())) for name, shards in holds.tables.items()}
    return Connected(
        declared,
        clients,
        service,
        service.epoch,
        joined["number"],
        files,
        service.opened.folder.path,
        service.opened.lock.release,
    )
