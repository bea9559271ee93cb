"""A training in this process: shards as objects, workers as threads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....warehouse.files import VersionFiles
from ....warehouse.storage import Storage
from ...cores import cores, encoders
from ...errors import CheckpointError
from ...input.batches import Batch
from ...input.dealing import Dealer, Standing
from ...input.source import End
from ...ps.client import LocalClient
from ...ps.gang import Gang
from ...ps.networks.network_shards import NetworkShards
from ...ps.shard import Shard
from ...stacks import roomy
from ..checkpoints.checkpointer import CheckpointContents, Checkpointer
from ..checkpoints.driver_state import DriverState
from ..checkpoints.files import fall_back, newest_first, read_driver, restore, standing_of, write
from ..compiled import share_work
from ..metrics.windows import Collector, Key, WindowPart
from ..monitor import Monitor
from ..prepared import Prepared
from ..row_files.passes import begin, begin_pass
from ..row_files.rows import changed_programs, load, new_shard, save
from ..row_files.saved import SavedShards, total
from ..validation import Pull, keep_pass, learn_by_pass, require_kept
from .pace import Pace
from .vector_networks import asked_of, local_runs
from .worker import Worker

if TYPE_CHECKING:
    from ....warehouse.draft import Draft


def learn_here(prepared: Prepared, draft: Draft, monitor: Monitor) -> SavedShards:
    """Learn from the input, from the newest good checkpoint on where there is one, and write what the shards hold, where no
    best pass is kept.

    Raises:
        DataError, TrainingError, ModelError: the first of any worker; the others stop.
    """
    (num_shards, num_workers), schedule = prepared.places, prepared.schedule
    epoch, checkpoints = draft.manifest.epoch, draft.checkpoints
    shards, standing, opened = begin_here(prepared, draft, epoch, monitor)
    if schedule is not None:
        for shard in shards.values():
            shard.watch()
    monitor.watch(lambda: total(shard.describe() for shard in shards.values()))
    settings = prepared.plan.settings
    together = settings.together and num_workers > 1
    client, networks = client_of(prepared, shards, monitor), None
    if prepared.on_shards:
        networks = asked_of(client, prepared.recipe, prepared.columns)
    dealer = Dealer(prepared.turns, num_workers, settings.together, standing)
    left = None if prepared.pauses_after is None else max(0, prepared.pauses_after - sum(monitor.counted.values()))
    pace = Pace(num_workers, settings.slack if settings.sync == "ssp" else None, monitor.held_up, together, left)
    windows = [Collector(schedule, prepared.targets, monitor.step, monitor.close, opened) for _ in range(num_workers)]

    def state() -> DriverState:
        seen = [window for collector in windows if (window := collector.open()) is not None]
        return monitor.state(dealer.finished, [*opened.values(), *seen])

    taker = Beside(shards, pace, checkpoints.place, state)
    with Checkpointer(checkpoints, epoch, settings.checkpoint_seconds, taker, monitor.note) as checkpointer:
        learn = functools.partial(run_workers, prepared, epoch, client, dealer, pace, monitor, windows, networks)
        validated = None
        if not prepared.by_pass:
            learn()
        else:
            passes = LocalPasses(shards, prepared, draft, monitor, dealer, pace, checkpointer, learn)
            validated = learn_by_pass(prepared, monitor, passes)
        if prepared.trial.pause is not None:
            checkpointer.take()
            raise monitor.paused(validated, draft)
    if monitor.kept is not None:
        return monitor.kept.held
    saved = save(shards, num_shards, draft, draft.manifest.tables)
    return SavedShards(saved, total(shard.describe() for shard in shards.values()))


def client_of(prepared: Prepared, shards: Mapping[int, Shard], monitor: Monitor) -> LocalClient:
    """Return the client of shards, which keep workers in step where the training asks for that."""
    settings, num_workers = prepared.plan.settings, prepared.places.workers
    if not prepared.on_shards and not (settings.together and num_workers > 1):
        return LocalClient(list(shards.values()))
    runs = local_runs(prepared.recipe, prepared.columns, list(shards.values())) if prepared.on_shards else [None] * len(shards)
    given = num_workers, monitor.held_up, settings.sync == "hybrid"
    return LocalClient([Gang(shard, *given, own) for shard, own in zip(shards.values(), runs, strict=True)])


class LocalPasses(NamedTuple):
    """Learns pass by pass; see Passes."""

    shards: Mapping[int, Shard]
    prepared: Prepared
    draft: Draft
    monitor: Monitor
    dealer: Dealer
    pace: Pace
    checkpointer: Checkpointer
    run: Callable[[], None]

    def learn(self, number: int) -> bool:
        """See Passes."""
        if number > self.prepared.first_pass:
            self.end(number - 1)  # a checkpoint may be older
        if self.prepared.counts_by_pass:
            with self.checkpointer.between():
                one = self.prepared
                begin_pass(self.shards, one.places.shards, number, one.parent, one.recipe, one.baseline)
        self.dealer.open(number)
        if self.dealer.unfinished:
            self.pace.begin()
            self.run()
        if over := not self.dealer.unfinished:
            self.end(number)
        return over

    def end(self, number: int) -> None:
        """Let shards do what follows a pass."""
        if self.prepared.ends_passes:
            with self.checkpointer.between():
                for shard in self.shards.values():
                    shard.end_pass(number)

    def pulls(self) -> Sequence[Pull]:
        """See Passes."""
        return [LocalClient(list(self.shards.values())).pull for _ in range(self.prepared.places.workers)]

    def keep(self, number: int) -> None:
        """See Passes."""

        def write_rows(files: VersionFiles) -> SavedShards:
            saved = save(self.shards, self.prepared.places.shards, files, self.draft.manifest.tables)
            return SavedShards(saved, total(shard.describe() for shard in self.shards.values()))

        keep_pass(number, write_rows, self.prepared, self.draft, self.monitor, self.checkpointer)


class StartPoint(NamedTuple):
    """The state with which a training begins.

    Attributes:
        standing: how far it has come.
        opened: windows that were open.
    """

    shards: dict[int, Shard]
    standing: Standing
    opened: dict[Key, WindowPart]


def begin_here(prepared: Prepared, draft: Draft, epoch: int, monitor: Monitor) -> StartPoint:
    """Return what a round of a training begins with: what a checkpoint of it has, else what it takes over, else its parent."""
    num_shards, columns, checkpoints = prepared.places.shards, prepared.columns, draft.checkpoints

    def fresh() -> dict[int, Shard]:
        return {n: new_shard(prepared.recipe, n, num_shards, columns, epoch, prepared.pace) for n in range(num_shards)}

    for checkpoint in newest_first(checkpoints, draft.round_epoch, monitor.note):
        shards = fresh()
        try:
            driver = read_driver(checkpoints, checkpoint)
            require_kept(driver, draft)
            restore(shards, num_shards, checkpoints, checkpoint, epoch)
        except CheckpointError as error:
            fall_back(error, monitor.note)
            continue
        monitor.go_on(driver)
        monitor.note(f"Continuing from checkpoint {checkpoint.name}, after {driver.examples:,} examples.")
        standing = standing_of(driver, (entry for shard in shards.values() for entry in shard.progress()))
        return StartPoint(shards, standing, {window.key: window for window in driver.open})
    shards = fresh()
    if (begins := prepared.trial.begins) is not None and prepared.round is None:
        checkpoint = begins.checkpoint()
        driver = begins.driver(read_driver(begins.checkpoints, checkpoint))
        restore(shards, num_shards, begins.checkpoints, checkpoint, epoch, begins)
        monitor.go_on(driver)
        standing = standing_of(driver, (entry for shard in shards.values() for entry in shard.progress()))
        return StartPoint(shards, standing, {window.key: window for window in driver.open})
    if prepared.begins is not None:
        changed = changed_programs(prepared.plan, prepared.recipe, prepared.begins)
        load(shards, num_shards, prepared.begins, columns, changed, prepared.tree)
    else:
        begin(shards, num_shards, prepared.recipe, prepared.baseline)
    return StartPoint(shards, Standing(), {})


class Beside:
    """Takes checkpoints of shards in this process: all of one moment, between two steps of every worker."""

    def __init__(self, shards: Mapping[int, Shard], pace: Pace, place: Storage, state: Callable[[], DriverState]) -> None:
        self._shards = shards
        self._pace = pace
        self._place = place
        self._state = state

    def take(self, folder: str, full: bool) -> CheckpointContents:
        """See Taker."""
        with ExitStack() as stack:
            with self._pace.held():
                snapshots = {n: stack.enter_context(shard.snapshot(full)) for n, shard in self._shards.items()}
                driver = self._state()
            parts = [write(self._place, folder, n, len(self._shards), snapshot) for n, snapshot in snapshots.items()]
        return CheckpointContents(parts, driver)

    def cancel(self) -> None:
        """See Taker."""
        for shard in self._shards.values():
            shard.cancel()


def run_workers(
    prepared: Prepared,
    epoch: int,
    client: LocalClient,
    dealer: Dealer,
    pace: Pace,
    monitor: Monitor,
    collectors: Sequence[Collector],
    networks: NetworkShards | None,
) -> None:
    """Run the workers, a thread each, until there are no more batches; the first error stops all and is raised."""
    settings, source, num_workers = prepared.plan.settings, prepared.source(epoch), prepared.places.workers
    share_work(cores() - num_workers + 1)

    def run(number: int) -> None:
        windows = collectors[number]

        def learned(batch: Batch, predictions: NDArray[np.float32]) -> None:
            windows.learned(batch, monitor.observed.observe(batch, predictions))
            pace.done(number)

        def ended(end: End) -> None:
            windows.finish()
            dealer.finish(number, end.turn, end.batches)

        clocks = monitor.clocks()
        worker = Worker(number, client, prepared.recipe, learned, ended, clocks.learning, networks=networks)
        deal = functools.partial(dealer.next, number)
        try:
            with prepared.reading(source, deal, clocks, encoders(num_workers)) as ahead:
                worker.learn(ahead, functools.partial(pace.step, number), settings.sync == "ssp")
        except Exception:
            pace.fail()
            raise
        except BaseException:
            pace.stop()
            raise
        finally:
            pace.leave(number)
            client.leave(number)

    with ThreadPoolExecutor(num_workers, thread_name_prefix="xpsql-worker") as pool:
        futures = [pool.submit(roomy(run), number) for number in range(num_workers)]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pace.stop()
            raise
