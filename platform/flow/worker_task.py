"""A worker as a task: it takes splits from the driver, learns from their batches, and tells what it has learned."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from ..engines.tasks import Task
from ..ps.coordinator import CALL_SECONDS, EndedError, Membership
from ..ps.remote import RemoteClient
from .ahead import Ahead
from .batches import Batch
from .compiled import prepare_jax
from .dealing import Turn
from .job import REPORT, STEP, TAKE, WAIT_SECONDS, Job, Report, Step, Take, check_version, limit_threads
from .local import AHEAD
from .metrics import Metrics
from .plan import Evaluate
from .prepared import Prepared
from .recipe import recipe_of
from .windows import Collector, Window
from .worker import Worker

REPORT_SECONDS = 0.5


def work(job: Job, task: Task) -> None:
    """Be worker `task.number` of a training.

    Raises:
        XpsqlError: of data, a shard or the driver; the driver has been told if it can be.
    """
    check_version(job.xpsql)
    limit_threads(task.cores)
    prepare_jax()
    with Membership(job.contact, "worker", task.number, task.attempt) as member:
        recipe = recipe_of(job.plan, job.columns)
        prepared = Prepared(job.plan, recipe, job.columns, job.scan, job.splits, job.batch_size, job.parent, job.places)
        telling = Telling(member, task.number, recipe.algorithm.classifier, job.plan.evaluate)
        with RemoteClient(member.shards(WAIT_SECONDS), job.contact.secret) as client:
            worker = Worker(task.number, client, recipe, telling.learned)
            source = prepared.source()
            try:
                with Ahead(lambda: source.batches(lambda: take(member, task.number)), AHEAD) as ahead:
                    worker.learn(ahead, lambda: begin(member, task.number, job), job.plan.settings.sync == "ssp")
            finally:
                client.leave(task.number)
        telling.finish()


def take(member: Membership, number: int) -> Turn | None:
    """Ask the driver for the next split."""
    taken = member.call(TAKE, Take(number), CALL_SECONDS)
    return None if taken.split < 0 else Turn(taken.pass_number, taken.split)


def begin(member: Membership, number: int, job: Job) -> bool:
    """Wait until the next step may begin; stop when the driver says so.

    Raises:
        EndedError: the task must end.
    """
    if member.ended.is_set():
        raise EndedError
    return job.plan.settings.sync != "ssp" or member.call(STEP, Step(number), WAIT_SECONDS + CALL_SECONDS).go


class Telling:
    """Counts what a worker learned, and tells the driver twice a second."""

    def __init__(self, member: Membership, number: int, classifier: bool, evaluate: Evaluate | None) -> None:
        self._member = member
        self._number = number
        self._metrics = Metrics(classifier)
        self._batches = 0
        self._told = time.monotonic()
        self._windows: list[Window] = []
        self._collector = Collector(evaluate, classifier, self._count, self._windows.append)

    def learned(self, batch: Batch, predictions: NDArray[np.float32]) -> None:
        """Count a batch that was learned from, scored before."""
        self._collector.learned(batch, predictions)

    def finish(self) -> None:
        """Tell what is left."""
        self._collector.finish()
        self.tell()

    def _count(self, batch: Batch, predictions: NDArray[np.float32]) -> None:
        self._batches += 1
        self._metrics.add(batch.label[0, : batch.examples], predictions)
        if time.monotonic() - self._told >= REPORT_SECONDS:
            self.tell()

    def tell(self) -> None:
        """Tell the driver."""
        self._told = time.monotonic()
        windows = tuple(self._windows)
        self._member.call(REPORT, Report(self._number, self._batches, self._metrics.tally(), windows), CALL_SECONDS)
        del self._windows[: len(windows)]
