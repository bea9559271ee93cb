"""A shard as a task: it loads its rows, serves them, writes them when asked to, and ends when the driver says so or is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from ....warehouse.files import VersionFiles
from ....warehouse.trainings.checkpoints import Checkpoints
from ... import parts
from ...engines.tasks import Task
from ...errors import LostError
from ...input.columns import Columns
from ...ps._native import keep_freed_memory
from ...ps.gang import ANSWER_SECONDS, Gang
from ...ps.networks.runs import NetworkRuns
from ...ps.networks.steps import ParameterSteps
from ...ps.pressure import Pressure
from ...ps.remote import RemotePeers
from ...ps.service import shard_handlers
from ...ps.shard import Shard
from ...ps.transport.base import ShardsClient
from ...ps.transport.connection_limits import room_for
from ...ps.transport.tls import Certificate
from ...ps.transport.wire import Acknowledged, Handler
from ..checkpoints.files import restore
from ..clauses.evaluate import EVALUATE
from ..compiled import compilations, prepare_task
from ..online.vector_networks import networks_of, sizes_of
from ..parallelism import in_step
from ..recipe import Recipe, recipe_of
from ..row_files.passes import begin, begin_pass
from ..row_files.rows import changed_programs, load, new_shard, save
from ..row_files.saved import SavedRows
from .coordinator import TO_SHARD
from .job import (
    BEGIN_PASS,
    PRESSED,
    SAVE,
    SLOW,
    WAIT_SECONDS,
    Job,
    MemoryPressure,
    PassBegin,
    Save,
    Slow,
    check_machine,
    own_host,
    saved_files,
)
from .membership import CALL_SECONDS, EndedError, Membership
from .remote_checkpoints import checkpoint_handlers

PRESSED_SECONDS = 3600.0  # the driver takes a last checkpoint
KEPT_BYTES = 1 << 27  # several times the arrays of a large request


def host_shard(job: Job, certificate: Certificate | None, task: Task) -> None:
    """Run shard `task.number` of a training.

    Args:
        certificate: for TLS; None for none.

    Raises:
        XpsqlError: it cannot load its rows, or the driver cannot be reached; the driver has been notified if it can be.
    """
    check_machine(job.xpsql, job.folder)
    keep_freed_memory(KEPT_BYTES)
    prepare_task(task.cores)
    number, num_shards = task.number, job.input.places.shards
    shard = new_shard(
        recipe_of(job.input.plan, job.input.columns), number, num_shards, job.input.columns, job.epoch, job.input.pace
    )
    membership = Membership(job.contact, "shard", number, task.attempt)
    with contextlib.suppress(EndedError), compilations(shard.compiled), membership as member:
        fill(shard, number, job)
        if job.input.plan.clause(EVALUATE) is not None:
            shard.watch()
        gang = gang_of(shard, number, job, member)
        name, handlers = f"shard {number} of {job.contact.job}", handlers_of(shard, gang, number, job, member)
        fellows = num_shards if job.input.on_shards else 0
        host, limits = own_host(job.contact.address), room_for(job.input.places.workers + TO_SHARD + fellows)
        with job.contact.transport.serve(name, handlers, job.contact.secret, host, limits, certificate) as server:
            member.ready(server.address)
            try:
                member.stay()
            finally:
                shard.cancel()
                if gang is not None:  # whose threads would hold the shard's memory in a process that is used again
                    gang.end()
                    if gang.networks is not None:
                        gang.networks.close()


def fill(shard: Shard, number: int, job: Job) -> None:
    """Put into a new shard what it begins with: a checkpoint, or else what the training takes over or continues."""
    recipe = recipe_of(job.input.plan, job.input.columns)
    if job.checkpoint:
        checkpoints = Checkpoints(job.checkpoints)  # the driver has looked whose they are
        restore({number: shard}, job.input.places.shards, checkpoints, checkpoints.manifest(job.checkpoint), job.epoch)
    elif (begins := job.input.trial.begins) is not None and job.input.round is None:
        num_shards, there = job.input.places.shards, begins.checkpoints
        restore({number: shard}, num_shards, there, begins.checkpoint(), job.epoch, begins)
    elif (before := job.input.begins) is not None:
        changed = changed_programs(job.input.plan, recipe, before)
        load({number: shard}, job.input.places.shards, before, job.input.columns, changed, job.input.tree)
    else:
        begin({number: shard}, job.input.places.shards, recipe, job.input.baseline)


def remote_runs(
    number: int, shard: Shard, recipe: Recipe, columns: Columns, num_shards: int, dial: Callable[[], ShardsClient]
) -> NetworkRuns:
    """Return the networks of a shard whose fellows are behind servers.

    Args:
        dial: connects to all of them.
    """
    own = sizes_of(recipe)
    names = [[name for name in names if name in own] for names in recipe.dense.dealt(num_shards)]
    steps = ParameterSteps(shard, names[number], num_shards)
    return NetworkRuns(number, networks_of(recipe, columns), steps, lambda: RemotePeers(dial(), names, ANSWER_SECONDS))


def gang_of(shard: Shard, number: int, job: Job, member: Membership) -> Gang | None:
    """Return what keeps a shard's workers in step; None where nothing does."""

    def held_up(workers: Sequence[int], seconds: float) -> None:
        member.call(SLOW, Slow(tuple(workers), seconds), CALL_SECONDS)

    def dial() -> ShardsClient:
        try:
            return job.contact.dial_shards(member.shards(WAIT_SECONDS), ANSWER_SECONDS)
        except EndedError as ended:
            raise LostError("The shard ends.") from ended

    given, networks = job.input, None
    settings, places = given.plan.settings, given.places
    if given.on_shards:
        recipe = recipe_of(given.plan, given.columns)
        networks = remote_runs(number, shard, recipe, given.columns, places.shards, dial)
    return Gang(shard, places.workers, held_up, settings.sync == "hybrid", networks) if in_step(settings, places) else None


def handlers_of(shard: Shard, gang: Gang | None, number: int, job: Job, member: Membership) -> tuple[Handler[Any, Any], ...]:
    """Return how a shard answers workers and the driver."""

    def pressed(message: str, full: bool) -> None:
        member.call(PRESSED, MemoryPressure(message, full), PRESSED_SECONDS)

    def save_rows(request: Save) -> SavedRows:
        files = saved_files(job.folder, job.epoch) if request.best < 0 else VersionFiles(job.folder).best(request.best)
        return save({number: shard}, job.input.places.shards, files, job.tables)

    def begin_to_count(request: PassBegin) -> Acknowledged:
        if request.over:
            shard.end_pass(request.number)
        else:
            given, recipe = job.input, recipe_of(job.input.plan, job.input.columns)
            begin_pass({number: shard}, given.places.shards, request.number, given.parent, recipe, given.baseline)
        return Acknowledged()

    name, limit = f"Shard {number} of {job.contact.job}", job.memory_bytes
    pressure = None
    if limit is not None:
        pressure = Pressure(name, limit, shard.describe, shard.collect, pressed)
    own = shard_handlers(gang or shard, None if pressure is None else pressure.ease, parts.READING.found)

    driven = Handler(SAVE, save_rows), Handler(BEGIN_PASS, begin_to_count)
    return *own, *driven, *checkpoint_handlers(shard, gang, job.checkpoints, number, job.input.places.shards)
