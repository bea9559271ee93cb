"""A shard as a task: it loads its rows, serves them, writes them when told to, and ends when the driver says so or is gone."""

from __future__ import annotations

from ..engines.tasks import Task
from ..ps.coordinator import Membership
from ..ps.gang import Gang
from ..ps.server import Server
from ..ps.service import shard_handlers
from ..ps.wire import Handler
from .compiled import compilations, prepare_jax
from .job import SAVE, Job, Save, check_version, limit_threads, own_host, saved_files
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

    served = Gang(shard, job.places.workers) if settings.sync == "bsp" and job.places.workers > 1 else shard
    handlers = (*shard_handlers(served), Handler(SAVE, write))
    name = f"shard {number} of {job.contact.job}"
    with (
        compilations(shard.compiled),
        Server(name, handlers, job.contact.secret, own_host(job.contact.address)) as server,
        Membership(job.contact, "shard", number, task.attempt) as member,
    ):
        if job.parent is not None:
            load({number: shard}, job.places.shards, job.parent, job.columns)
        if job.plan.evaluate is not None:
            shard.watch()
        member.ready(server.address)
        member.ended.wait()
