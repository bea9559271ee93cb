"""A training on the tasks of an engine, from its start or a checkpoint to the rows of the version; started again after a
loss."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import TYPE_CHECKING

from ...engines.tasks import Tasks
from ...errors import CheckpointError, LostError
from ...ps.watermarks import from_lines
from ..checkpoints.driver_state import DriverState
from ..checkpoints.files import fall_back, newest_first, read_driver
from ..checkpoints.recovery import Recoveries
from ..monitor import Monitor
from ..prepared import Prepared
from ..row_files.saved import SavedShards
from ..validation import require_kept
from .driver import Driver
from .job import job_of, saved_files
from .remote_checkpoints import ASK_SECONDS
from .shard_task import host_shard

if TYPE_CHECKING:
    from ....warehouse.draft import Draft


def learn_on(tasks: Tasks, prepared: Prepared, draft: Draft, monitor: Monitor) -> SavedShards:
    """Learn from the input on an engine's tasks, from the newest good checkpoint on, and let the shards write what they hold,
    where no best pass is kept.

    Raises:
        DataError, TrainingError, ModelError: the first of any task; all others end.
    """
    recoveries, epoch, useless = Recoveries(monitor), draft.manifest.epoch, set[str]()
    checkpoint, state = newest(draft, useless, monitor)
    if state is None and (begins := prepared.trial.begins) is not None and prepared.round is None:
        state = begins.driver(read_driver(begins.checkpoints, begins.checkpoint()))
    if state is not None:
        monitor.go_on(state)
    finished = {} if state is None else from_lines(state.finished)
    while True:
        driver = Driver(prepared, monitor, recoveries, finished)
        try:
            return learn_once(tasks, prepared, draft, driver, epoch, checkpoint, monitor)
        except LostError as error:
            recoveries.lost("the shards", error)
        except CheckpointError as error:
            fall_back(error, monitor.note)
            useless.add(checkpoint)
        finished, epoch = {**finished, **driver.finished}, epoch + 1
        draft.enter(epoch)
        checkpoint, state = newest(draft, useless, monitor)
        monitor.back_to(state)


def newest(draft: Draft, useless: Collection[str], monitor: Monitor) -> tuple[str, DriverState | None]:
    """Return the name of the newest checkpoint of the round that looks whole, and how far the training was; "" and None where
    there is none.

    Reports which one it is.

    Args:
        useless: names of some that did not prove whole.
    """
    for checkpoint in newest_first(draft.checkpoints, draft.round_epoch, monitor.note):
        if checkpoint.name not in useless:
            try:
                state = read_driver(draft.checkpoints, checkpoint)
                require_kept(state, draft)
                monitor.note(f"Continuing from checkpoint {checkpoint.name}, after {state.examples:,} examples.")
                return checkpoint.name, state
            except CheckpointError as error:
                fall_back(error, monitor.note)
    return "", None


def learn_once(
    tasks: Tasks, prepared: Prepared, draft: Draft, driver: Driver, epoch: int, checkpoint: str, monitor: Monitor
) -> SavedShards:
    """Learn from where a checkpoint stands, to the end.

    Args:
        checkpoint: its name; empty: from the beginning.

    Raises:
        LostError: a task is lost that nobody replaces.
        CheckpointError: the checkpoint is damaged.
        XpsqlError: see learn_on.
    """
    places = prepared.places
    with driver.cluster(tasks, f"{prepared.plan.model} v{draft.number}") as on:
        job = job_of(prepared, draft, on.contact, epoch, checkpoint, tasks.memory_bytes())
        on.start_shards(functools.partial(host_shard, job, on.certificate), places.shards)
        driver.start_workers(on, job)
        addresses = on.addresses()
        with on.dial_shards(addresses, ASK_SECONDS) as client:
            driver.begin(client)
            with driver.checkpointer(draft.checkpoints, epoch, addresses):
                validated = driver.learn(job, draft)
            kept = driver.kept
            held = None if prepared.trial.pause is not None else driver.save(-1) if kept is None else kept.held
        on.end()
    if held is None:
        raise monitor.paused(validated, draft)
    if kept is None:
        draft.adopt(saved_files(draft.folder, epoch))
    return held
