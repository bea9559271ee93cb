"""A training on the tasks of an engine: the driver's part."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ..engines.tasks import Tasks
from ..ps.remote import RemoteClient
from ..ps.watermarks import Turn
from ..ps.wire import Acknowledged, Handler
from .cluster import cluster
from .dealing import Dealer
from .job import REPORT, SAVE, STEP, TAKE, Report, Save, Step, Stepped, Take, Taken, job_of
from .local import FIRST_EPOCH
from .monitor import Monitor
from .pace import Pace
from .prepared import Prepared
from .shard_task import host_shard
from .state import Held, merged_saved, total
from .worker_task import work

if TYPE_CHECKING:
    from ...warehouse.draft import Draft

SAVE_SECONDS = 3600.0
NO_MORE = Taken(-1, -1, 0, 0, 0)


def learn_on(tasks: Tasks, prepared: Prepared, draft: Draft, monitor: Monitor) -> Held:
    """Learn from the input on an engine's tasks, and let the shards write what they hold.

    Raises:
        DataError, TrainingError, ModelError: the first of any task; all others end.
    """
    settings, places = prepared.plan.settings, prepared.places
    dealer = Dealer(prepared.turns, places.workers, settings.sync == "bsp", prepared.plan.evaluate)
    pace = Pace(places.workers, settings.slack if settings.sync == "ssp" else None)
    name = f"{prepared.plan.model} v{draft.number}"
    handlers = [take_handler(dealer), *training_handlers(dealer, pace, monitor)]
    with cluster(tasks, name, places.shards, handlers, functools.partial(left, pace)) as on:
        job = job_of(prepared, draft, on.contact, FIRST_EPOCH)
        addresses = on.start_shards(functools.partial(host_shard, job), places.shards)
        with RemoteClient(addresses, on.contact.secret) as client:
            monitor.watch(lambda: total(client.describe()))
            on.run_workers(functools.partial(work, job), places.workers, f"xpsql: train {name}", settings.sync == "bsp")
            held = Held(merged_saved(client.each(SAVE, Save(), SAVE_SECONDS)), total(client.describe()))
        on.end()
    return held


def take_handler(dealer: Dealer) -> Handler[Take, Taken]:
    """Return how the driver deals splits."""

    def take(request: Take) -> Taken:
        dealt = dealer.next(request.worker)
        return NO_MORE if dealt is None else Taken(*dealt.turn, dealt.start, dealt.applied, dealt.counted)

    return Handler(TAKE, take)


def training_handlers(dealer: Dealer, pace: Pace, monitor: Monitor) -> list[Handler[Any, Any]]:
    """Return how the driver answers what workers of a training ask and tell beside."""

    def step(request: Step) -> Stepped:
        return Stepped(pace.step(request.worker))

    def report(request: Report) -> Acknowledged:
        monitor.absorb(request)
        for number, split, batches in request.ended.tolist():
            dealer.finish(request.worker, Turn(number, split), batches)
        return Acknowledged()

    return [Handler(STEP, step), Handler(REPORT, report)]


def left(pace: Pace, role: str, number: int) -> None:
    """Let nobody wait for a worker that has left."""
    if role == "worker":
        pace.leave(number)
