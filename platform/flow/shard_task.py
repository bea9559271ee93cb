"""A shard as a task: it loads its rows, serves them, writes them when told to, and ends when the driver says so or is gone."""

from __future__ import annotations

from collections.abc import Sequence

from ..engines.tasks import Task
from ..ps.coordinator import CALL_SECONDS, Membership
from ..ps.gang import Gang
from ..ps.server import Server
from ..ps.service import shard_handlers
from ..ps.wire import Handler
from .compiled import compilations, prepare_jax
from .job import SAVE, SLOW, Job, Save, Slow, check_version, limit_threads, own_host, saved_files
from .recipe import recipe_of
from .state import Saved, load, new_shard, save


def host_shard(job: Job, task: Task) -> None:
    """Be shard `task.number` of a training.

    Raises:
        XpsqlError: it cannot load its rows, or the driver cannot be reached; the driver has been told if it can be.
    """
    check_version(job.xpsql)
    limit_threads(task.cores)
    prepare_jax()
    number, settings = task.number, job.plan.settings
    shard = new_shard(recipe_of(job.plan, job.columns), number, job.places.shards, job.columns, job.epoch)

    def write(_: Save) -> Saved:
        return save({number: shard}, job.places.shards, saved_files(job.folder, job.epoch), job.tables)

    name = f"shard {number} of {job.contact.job}"
    with compilations(shard.compiled), Membership(job.contact, "shard", number, task.attempt) as member:
        if job.parent is not None:
            load({number: shard}, job.places.shards, job.parent, job.columns)
        if job.plan.evaluate is not None:
            shard.watch()

        def held_up(workers: Sequence[int], seconds: float) -> None:
            member.call(SLOW, Slow(tuple(workers), seconds), CALL_SECONDS)

        together = settings.sync == "bsp" and job.places.workers > 1
        served = Gang(shard, job.places.workers, held_up) if together else shard
        handlers = (*shard_handlers(served), Handler(SAVE, write))
        with Server(name, handlers, job.contact.secret, own_host(job.contact.address)) as server:
            member.ready(server.address)
            member.ended.wait()
