"""A training on the tasks of an engine: the driver's part."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..engines.tasks import Running, Task, Tasks
from ..errors import TrainingError
from ..ps.client import RemoteClient
from ..ps.coordinator import Coordinator
from ..ps.sockets import Address
from ..ps.wire import Acknowledged, Handler
from .dealing import Dealer
from .job import REPORT, SAVE, STEP, TAKE, WAIT_SECONDS, Report, Save, Step, Stepped, Take, Taken, job_of
from .monitor import Monitor
from .pace import Pace
from .prepared import Prepared
from .shard_task import host_shard
from .state import Held, merged_saved, total
from .worker_task import work

if TYPE_CHECKING:
    from ...warehouse.draft import Draft

POLL_SECONDS = 0.2
SAVE_SECONDS = 3600.0
END_SECONDS = 10.0


def learn_on(tasks: Tasks, prepared: Prepared, draft: Draft, monitor: Monitor) -> Held:
    """Learn from the input on an engine's tasks, and let the shards write what they hold.

    Raises:
        DataError, TrainingError, ModelError: the first of any task; all others end.
    """
    settings, places = prepared.plan.settings, prepared.places
    dealer = Dealer(len(prepared.splits), settings.passes, places.workers, fixed=settings.sync == "bsp")
    pace = Pace(places.workers, settings.slack if settings.sync == "ssp" else None)
    name = f"{prepared.plan.model} v{draft.number}"
    handlers = handlers_of(dealer, pace, monitor)
    with Coordinator(name, places.shards, tasks.host, handlers, functools.partial(left, pace)) as coordinator:
        job = job_of(prepared, draft, coordinator.contact)
        gang = settings.sync == "bsp"
        with started(tasks, functools.partial(host_shard, job), places.shards, f"xpsql: shards of {name}", False) as shards:
            addresses = found(coordinator, shards)
            with RemoteClient(addresses, job.contact.secret) as client:
                monitor.watch(lambda: total(client.describe()))
                with started(tasks, functools.partial(work, job), places.workers, f"xpsql: train {name}", gang) as workers:
                    while not ended(coordinator, workers):
                        if ended(coordinator, shards):
                            raise TrainingError(f"The shards of {name} ended before its workers did. Run the statement again.")
                        coordinator.wait(POLL_SECONDS)
                held = Held(merged_saved(client.each(SAVE, Save(), SAVE_SECONDS)), total(client.describe()))
            coordinator.end()
            shards.wait(END_SECONDS)
    return held


def handlers_of(dealer: Dealer, pace: Pace, monitor: Monitor) -> list[Handler[Any, Any]]:
    """Return how the driver answers what workers ask and tell."""

    def take(request: Take) -> Taken:
        turn = dealer.next(request.worker)
        return Taken(*turn) if turn is not None else Taken(-1, -1)

    def step(request: Step) -> Stepped:
        return Stepped(pace.step(request.worker))

    def report(request: Report) -> Acknowledged:
        monitor.absorb(request)
        return Acknowledged()

    return [Handler(TAKE, take), Handler(STEP, step), Handler(REPORT, report)]


def left(pace: Pace, role: str, number: int) -> None:
    """Let nobody wait for a worker that has left."""
    if role == "worker":
        pace.leave(number)


@contextmanager
def started(tasks: Tasks, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Iterator[Running]:
    """Run tasks; those that still run at the end of the block are cancelled."""
    running = tasks.start(function, count, name, gang)
    try:
        yield running
    finally:
        running.cancel()


def ended(coordinator: Coordinator, running: Running) -> bool:
    """Tell whether tasks have ended; raise what went wrong, as a task told it or else as the engine saw it."""
    try:
        over = running.wait(0)
    except TrainingError:
        coordinator.check()
        raise
    coordinator.check()
    return over


def found(coordinator: Coordinator, shards: Running) -> list[Address]:
    """Wait until all shards serve, and return their addresses.

    Raises:
        TrainingError: they do not within ten minutes.
    """
    for _ in range(int(WAIT_SECONDS / POLL_SECONDS)):
        addresses = coordinator.shards()
        if addresses is not None:
            return addresses
        if ended(coordinator, shards):
            break
        coordinator.wait(POLL_SECONDS)
    raise TrainingError(
        f"The shards of {coordinator.contact.job} have not started within {WAIT_SECONDS:.0f} s. Spark's own messages say why; "
        "other jobs may hold its cores."
    )
