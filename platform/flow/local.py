"""A training in this process: shards as objects, workers as threads."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ..ps.client import LocalClient
from ..ps.gang import Gang
from .ahead import Ahead
from .dealing import Dealer
from .monitor import Monitor
from .pace import Pace
from .prepared import Prepared
from .source import End
from .state import Held, load, new_shard, save, total
from .windows import Collector
from .worker import Worker

if TYPE_CHECKING:
    from ...warehouse.draft import Draft

FIRST_EPOCH = 0


def learn_here(prepared: Prepared, draft: Draft, monitor: Monitor) -> Held:
    """Learn from the input and write what the shards hold.

    Raises:
        DataError, TrainingError, ModelError: the first of any worker; the others stop.
    """
    num_shards, num_workers = prepared.places
    shards = {n: new_shard(prepared.recipe, n, num_shards, prepared.columns, FIRST_EPOCH) for n in range(num_shards)}
    if prepared.parent is not None:
        load(shards, num_shards, prepared.parent, prepared.columns)
    if prepared.plan.evaluate is not None:
        for shard in shards.values():
            shard.watch()
    monitor.watch(lambda: total(shard.describe() for shard in shards.values()))
    together = prepared.plan.settings.sync == "bsp" and num_workers > 1
    client = LocalClient([Gang(shard, num_workers, monitor.held_up) if together else shard for shard in shards.values()])
    run_workers(prepared, client, monitor)
    saved = save(shards, num_shards, draft, draft.manifest.tables)
    return Held(saved, total(shard.describe() for shard in shards.values()))


def run_workers(prepared: Prepared, client: LocalClient, monitor: Monitor) -> None:
    """Run the workers, a thread each, until there are no more batches; the first error stops all and is raised."""
    settings, source, num_workers = prepared.plan.settings, prepared.source(FIRST_EPOCH), prepared.places.workers
    dealer = Dealer(prepared.turns, num_workers, settings.sync == "bsp", prepared.plan.evaluate)
    pace = Pace(num_workers, settings.slack if settings.sync == "ssp" else None, monitor.held_up)

    def run(number: int) -> None:
        windows = Collector(prepared.plan.evaluate, prepared.recipe.algorithm.classifier, monitor.step, monitor.close)

        def ended(end: End) -> None:
            windows.finish()
            dealer.finish(number, end.turn, end.batches)

        clocks = monitor.clocks()
        worker = Worker(number, client, prepared.recipe, windows.learned, ended, clocks.learning)
        deal = functools.partial(dealer.next, number)
        try:
            with Ahead(lambda: source.batches(deal, clocks.reading), settings.read_ahead) as ahead:
                worker.learn(ahead, functools.partial(pace.step, number), settings.sync == "ssp")
        except BaseException:
            pace.stop()
            raise
        finally:
            pace.leave(number)
            client.leave(number)

    with ThreadPoolExecutor(num_workers, thread_name_prefix="xpsql-worker") as pool:
        futures = [pool.submit(run, number) for number in range(num_workers)]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pace.stop()
            raise
