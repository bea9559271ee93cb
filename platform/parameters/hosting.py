"""A shard of a service in a task, which serves it until the holder says so or is gone."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import parts
from ..engines.tasks import Task
from ..ps._native import keep_freed_memory
from ..ps.service import shard_handlers
from ..ps.transport.connection_limits import room_for
from ..ps.transport.tls import Certificate
from ..ps.transport.wire import Handler
from ..training.compiled import prepare_task
from ..training.tasks.job import check_machine, own_host
from ..training.tasks.membership import EndedError, Membership
from ..training.tasks.messages import Contact
from .calls import of_table, order_handler
from .declared import DeclaredTables
from .functions import FOLD, folded
from .held import HeldShards, ServiceBegin

KEPT_BYTES = 1 << 27
CLIENTS = 512
"""So many clients may be connected at once."""


class HostJob(NamedTuple):
    """What a task needs to hold a shard.

    Attributes:
        declared: the tables, as DeclaredTables gives them as JSON.
        xpsql: the holder's version.
        folder: of the service.
    """

    contact: Contact
    declared: Mapping[str, Any]
    shards: int
    epoch: int
    source: ServiceBegin
    xpsql: str
    folder: Path


def host_tables(job: HostJob, certificate: Certificate | None, task: Task) -> None:
    """Hold shard `task.number` of every table.

    Raises:
        XpsqlError: it cannot load its rows, or the holder cannot be reached; that has been notified if it can be.
    """
    check_machine(job.xpsql, job.folder)
    keep_freed_memory(KEPT_BYTES)
    prepare_task(task.cores)
    with contextlib.suppress(EndedError), Membership(job.contact, "shard", task.number, task.attempt) as member:
        holds = HeldShards(DeclaredTables.of_json(job.declared), [task.number], job.shards, job.epoch)
        holds.begin(job.source)
        name, host, limits = f"shard {task.number} of {job.contact.job}", own_host(job.contact.address), room_for(CLIENTS)
        handlers = list(handlers_of(holds))
        with job.contact.transport.serve(name, handlers, job.contact.secret, host, limits, certificate) as server:
            member.ready(server.address)
            member.stay()


def handlers_of(holds: HeldShards) -> Iterator[Handler[Any, Any]]:
    """Yield how a process answers the calls of its shards, table by table, and orders."""
    yield order_handler(holds.answer)
    for number, (table, shards) in enumerate(holds.tables.items()):
        for shard in shards.values():
            for handler in shard_handlers(shard, find=parts.READING.found):
                yield Handler(of_table(handler.call, number), handler.answer)
            yield Handler(of_table(FOLD, number), functools.partial(folded, holds.declared, table, shard))
