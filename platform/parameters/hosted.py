"""A parameter server whose shards are tasks of an engine, or processes, held by this process."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ..engines.tasks import Tasks
from ..errors import StatementError
from ..session import connect
from ..training.compiled import limit_threads, prepare_jax
from .client import ParameterServer
from .declared import DeclaredTable
from .holder import Holder
from .opening import OpenedService, opened
from .remote_server import join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HostedServer(ParameterServer):
    """A client in the process that holds the server; closing it ends the server.

    Args:
        holder: which begins here.
    """

    def __init__(self, holder: Holder) -> None:
        self._held = ExitStack()
        contact = self._held.enter_context(holder).contact
        try:
            super().__init__(contact.name, functools.partial(join, contact), contact)
        except BaseException:
            self._held.close()
            raise

    def close(self) -> None:
        """End the server: what was pushed since its last checkpoint is gone. Closing again does nothing."""
        super().close()
        self._held.close()


def hosted(
    held: OpenedService,
    tasks: Tasks,
    encrypt: bool = False,
    checkpoint_seconds: float | None = 300.0,
    tell: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> HostedServer:
    """Start a server's shards as tasks, and return a client.

    Args:
        tell: receives what happens, as lines.

    Raises:
        XpsqlError: the shards do not serve.
    """
    return HostedServer(Holder(held, tasks, encrypt, checkpoint_seconds, tell))


def on_spark(
    spark: SparkSession,
    warehouse: str | Path,
    name: str,
    tables: Mapping[str, DeclaredTable] | None = None,
    shards: int | None = None,
    seed: int = 0,
    begins: str | None = None,
    encrypt: bool = False,
    checkpoint_seconds: float | None = 300.0,
) -> ParameterServer:
    """Start a parameter server whose shards are tasks of a Spark application. Closing it ends it: what was pushed since its
    last checkpoint is gone.

    Tasks of Spark reach it by its contact: df.mapInArrow(lambda batches: learn(batches, contact)), with contact = ps.contact
    and xpsql.ps.connect(contact) in `learn`. Shards take tasks' cores for as long as it runs.

    Args:
        spark: the application's session.
        warehouse, name, tables, shards, seed, begins: as of `local`; the driver and all executors share the warehouse.
        encrypt: use TLS.
        checkpoint_seconds: between checkpoints; None: at a client's word alone.

    Raises:
        StatementError: tables that cannot be, or an application without room for the shards.
        ModelError: another process holds the name.
    """
    limit_threads(1)
    prepare_jax()
    session = connect(warehouse, spark)  # which is not closed: the application is the caller's
    tasks = session.engine.tasks
    assert tasks is not None  # Spark has some
    held = opened(warehouse, name, tables, shards, seed, begins)
    try:
        if (room := tasks.slots(held.shards, False)) < held.shards:
            raise StatementError(
                f"Parameter server {name} needs {held.shards} tasks for its shards, and {tasks.words.engine} has room for "
                f"{room}. {tasks.words.more_cores}, or take fewer shards."
            )
    except BaseException:
        held.lock.release()
        raise
    return hosted(held, tasks, encrypt, checkpoint_seconds)
