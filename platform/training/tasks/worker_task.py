"""A worker as a task: it takes splits from the driver, learns from their batches, and reports what it has learned."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from ...engines.tasks import Task
from ...input.batches import Batch
from ...input.dealing import TurnAssignment
from ...input.source import End
from ...input.timing import Clocks, Compiled, Timings
from ...ps.gang import ANSWER_SECONDS
from ...ps.remote import DEADLINE_SECONDS
from ...ps.watermarks import Turn, from_lines
from ..compiled import compilations, prepare_task
from ..metrics.metrics import LabelMetrics, Targets
from ..metrics.observed import Observations, Observed
from ..metrics.windows import Collector, Schedule, Window
from ..online.vector_networks import asked_of
from ..online.worker import Worker
from ..parallelism import in_step, pulls_ahead
from .job import LATER, NO_MORE, REPORT, STEP, TAKE, WAIT_SECONDS, Job, StepRequest, Take, check_machine, prepared_of
from .membership import CALL_SECONDS, EndedError, Membership
from .reports import Report, TurnReport

REPORT_SECONDS = 0.5
LATER_SECONDS, MOST_LATER_SECONDS = 0.05, 0.25
MOST_ATTEMPTS = 1 << 20  # that an engine makes of one task


def work(job: Job, generation: int, task: Task) -> None:
    """Run worker `task.number` of a training.

    Args:
        generation: how many times all workers were started before.

    Raises:
        XpsqlError: of data, a shard or the driver; the driver has been notified if it can be.
    """
    task = task._replace(attempt=generation * MOST_ATTEMPTS + task.attempt)
    check_machine(job.xpsql, job.folder)
    prepare_task(task.cores)
    with contextlib.suppress(EndedError), Membership(job.contact, "worker", task.number, task.attempt) as member:
        prepared = prepared_of(job)
        progress = ProgressSender(member, task, prepared.targets, prepared.schedule, prepared.asked)
        source, over = prepared.source(job.epoch), threading.Event()

        def read() -> Generator[Batch | End, None, None]:
            return source.batches(lambda: take(member, task, over), progress.clocks.reading, progress.left)

        seconds = ANSWER_SECONDS if in_step(job.input.plan.settings, job.input.places) else DEADLINE_SECONDS
        with member.dial_shards(WAIT_SECONDS, seconds) as client:
            callbacks, hybrid = (progress.learned, progress.ended), job.input.plan.settings.sync == "hybrid"
            networks = asked_of(client, prepared.recipe, prepared.columns) if prepared.on_shards else None
            worker = Worker(task.number, client, prepared.recipe, *callbacks, progress.clocks.learning, hybrid, networks)
            with compilations(progress.compiled.add), prepared.ahead(read) as ahead, contextlib.ExitStack() as learning:
                learning.callback(over.set)
                start = functools.partial(begin, member, task, job)
                given = job.input
                if depth := pulls_ahead(given.plan.settings, given.places, given.batch_size, given.counts.total):
                    worker.learn_ahead(ahead, start, depth, progress.wanted)
                else:
                    items = (item for item in ahead if progress.wanted(item))
                    worker.learn(items, start, job.input.plan.settings.sync == "ssp")
            client.leave(task.number)  # not by an error: a gang would make steps without it, and a checkpoint might keep them
        progress.finish()


def take(member: Membership, task: Task, over: threading.Event) -> TurnAssignment | None:
    """Ask the driver for the next turn, again and again while another worker has what may become one; None: there is none.

    Args:
        over: set when the task learns no more, as after an error.

    Raises:
        EndedError: the task must end.
    """
    seconds = LATER_SECONDS
    while not over.is_set():
        pass_number, split, *batches = member.call(TAKE, Take(task.number, task.attempt), CALL_SECONDS)
        if split != LATER:
            return None if split == NO_MORE else TurnAssignment(Turn(pass_number, split), *batches)
        if member.ended.wait(seconds):
            raise EndedError
        seconds = min(2 * seconds, MOST_LATER_SECONDS)
    return None


def begin(member: Membership, task: Task, job: Job) -> bool:
    """Wait until the next step may begin; stop when the driver says so.

    Raises:
        EndedError: the task must end.
    """
    if member.ended.is_set():
        raise EndedError
    if job.input.plan.settings.sync != "ssp":
        return True
    return member.call(STEP, StepRequest(task.number, task.attempt), WAIT_SECONDS + CALL_SECONDS).go


class ProgressSender:
    """Counts what a worker has learned, and reports to the driver twice a second, and each window at once.

    Attributes:
        clocks: of its steps, which it reports, too.
        compiled: what was compiled since the last report.
    """

    def __init__(
        self, member: Membership, task: Task, targets: Targets, schedule: Schedule | None, asked: Observations
    ) -> None:
        self.clocks, self.compiled = Clocks(), Compiled()
        self._member = member
        self._task = task
        self._told = time.monotonic()
        self._collector = Collector(schedule, targets, self._count, lambda window: self._windows.append(window), {})
        self._targets, self._asked, self._observed = targets, asked, Observed(asked)
        self._terms: dict[Turn, int] = {}
        self._begin()

    def learned(self, batch: Batch, predictions: NDArray[np.float32]) -> None:
        """Count a batch that was learned from, scored before."""
        also = None if batch.counted else self._of(turn_of(batch), batch.term).observed
        self._collector.learned(batch, self._observed.observe(batch, predictions, also))

    def ended(self, end: End) -> None:
        """Report that a turn is finished: others may wait for that."""
        self._collector.finish()
        self._of(end.turn, end.term).ended = end.batches
        self.tell()

    def finish(self) -> None:
        """Report what is left."""
        self._collector.finish()
        self.tell()

    def _begin(self) -> None:
        """Begin the next report."""
        self._turns: dict[tuple[Turn, int], TurnCount] = {}
        self._windows: list[Window] = []

    def _count(self, batch: Batch, predictions: NDArray[np.float32]) -> None:
        if not batch.counted:
            count = self._of(turn_of(batch), batch.term)
            count.counted = batch.id.batch + 1
            count.metrics.add(batch.label[:, : batch.examples], predictions)
        if self._windows or time.monotonic() - self._told >= REPORT_SECONDS:
            self.tell()

    def tell(self) -> None:
        """Report to the driver what has not been reported."""
        self._told = time.monotonic()
        turns = tuple(
            TurnReport(*turn, term, one.counted, one.ended, one.metrics.tallies(), one.observed.tallies())
            for (turn, term), one in self._turns.items()
        )
        spent = Timings(self.clocks.seconds, *self.compiled.counted)
        report = Report(self._task.number, self._task.attempt, turns, tuple(self._windows), spent)
        self._terms |= from_lines(self._member.call(REPORT, report, CALL_SECONDS).lines)
        self._begin()

    def wanted(self, item: Batch | End) -> bool:
        """Return whether this worker is to learn a batch, as far as it knows: no other has its turn now."""
        turn = item.turn if isinstance(item, End) else turn_of(item)
        return item.term >= self._terms.get(turn, 0)

    def left(self, dealt: TurnAssignment) -> bool:
        """Return whether another worker has a turn now that was dealt to this one, as far as it knows."""
        return dealt.term < self._terms.get(dealt.turn, 0)

    def _of(self, turn: Turn, term: int) -> TurnCount:
        return self._turns.setdefault((turn, term), TurnCount(self._targets, self._asked))


class TurnCount:
    """What has been learned of a turn since the last report; see TurnReport."""

    def __init__(self, targets: Targets, asked: Observations) -> None:
        self.counted, self.ended, self.observed = 0, -1, Observed(asked)
        self.metrics = LabelMetrics(targets.ungrouped)


def turn_of(batch: Batch) -> Turn:
    """Return the turn that a batch is of."""
    return Turn(batch.id.pass_number, batch.id.split)
