"""The driver of a training on the tasks of an engine.

A lost worker is replaced, its turns are dealt again. A shard that is lost, and in step any
task, ends all tasks; new ones begin from the last checkpoint. What must be computed again is; shards ignore what they have.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from ....warehouse.trainings.checkpoints import Checkpoints
from ...engines.tasks import Tasks
from ...errors import LostError, TrainingError
from ...input.dealing import Dealer, Standing, TurnAssignment
from ...ps.messages import Description, Keys, Pulled
from ...ps.remote import DEADLINE_SECONDS
from ...ps.service import WATERMARKS, StandingRequest
from ...ps.transport.base import ShardsClient
from ...ps.transport.over_sockets import SOCKETS
from ...ps.transport.sockets import Address
from ...ps.transport.wire import Acknowledged, Handler
from ...ps.watermarks import Turn, as_lines, highest, lowest
from ..checkpoints.checkpointer import Checkpointer
from ..checkpoints.recovery import Recoveries
from ..metrics.validations import Validated
from ..monitor import Monitor
from ..online.pace import Pace
from ..parallelism import in_step
from ..prepared import Prepared
from ..row_files.saved import KeptPass, SavedShards, merged_saved, total
from ..validation import keep_pass, learn_by_pass
from .cluster import Cluster, cluster
from .handover import Speeds
from .job import (
    BEGIN_PASS,
    LATER,
    PRESSED,
    REPORT,
    SAVE,
    SLOW,
    STEP,
    TAKE,
    Job,
    MemoryPressure,
    NextTurn,
    PassBegin,
    Save,
    Slow,
    StepPermission,
    StepRequest,
    Take,
    taken,
)
from .passes import RemotePasses
from .remote_checkpoints import ASK_SECONDS, RemoteTaker
from .reports import Report, Terms
from .worker_task import work

if TYPE_CHECKING:
    from ....warehouse.draft import Draft

SAVE_SECONDS = 3600.0


class Driver:
    """The driver's part of one try: it deals turns, keeps the pace, takes in reports, and replaces workers that are lost.

    Args:
        finished: turns that were finished before, and how many batches they have; shards may have lost them.
    """

    def __init__(self, prepared: Prepared, monitor: Monitor, recoveries: Recoveries, finished: Mapping[Turn, int]) -> None:
        self._prepared = prepared
        self._monitor = monitor
        self._recoveries = recoveries
        self._settings = prepared.plan.settings
        self._in_step = in_step(self._settings, prepared.places)
        self._num_workers = prepared.places.workers
        self._asking, self._dealing, self._reporting = threading.Lock(), threading.Lock(), threading.Lock()
        self._finished = finished
        self._dealer = Dealer((), self._num_workers, self._in_step)
        self._shares = False
        self._speeds = Speeds(lambda turn: -(-prepared.splits[turn.split].rows // prepared.batch_size))
        self._by_pass = prepared.by_pass
        self._awaited: set[Turn] = set()  # given back, and not dealt again
        self._generation = self._begun_with = 0
        self._begun = threading.Event()
        self._begin_pace()

    def cluster(self, tasks: Tasks, name: str) -> AbstractContextManager[Cluster]:
        """Give a cluster whose tasks ask this driver and report to it."""
        lost = None if self._in_step else self._lost
        return cluster(tasks, name, self._prepared.places, self.handlers, self._left, lost, self._settings.encrypt, SOCKETS)

    @property
    def handlers(self) -> tuple[Handler[Any, Any], ...]:
        """How it answers the requests and reports of tasks."""
        workers = Handler(TAKE, self._take), Handler(STEP, self._step), Handler(REPORT, self._report)
        return *workers, Handler(SLOW, self._slow), Handler(PRESSED, self._pressed)

    def start_workers(self, on: Cluster, job: Job) -> None:
        """Start workers; they get no turn before `begin`."""
        self._on = on
        name = f"xpsql: train {job.contact.job}"
        together = self._in_step and self._num_workers > 1
        on.start_workers(functools.partial(work, job, self._generation), self._num_workers, name, together)

    def begin(self, client: ShardsClient) -> None:
        """Begin to deal, from where the shards stand.

        Args:
            client: of the shards; used by one thread at a time.
        """
        self._client = client
        dealer = Dealer(self._prepared.turns, self._num_workers, self._in_step, self._standing())
        if self._by_pass:
            self._begun_with = len(self._monitor.validations.passes)
            self._begin_pass(self._begun_with)
            dealer.open(self._begun_with)
        self._dealer = dealer
        self._shares = not self._in_step and self._num_workers > 1 and self._prepared.schedule is None
        self._monitor.watch(self.describe)
        self._begun.set()

    @contextmanager
    def checkpointer(self, checkpoints: Checkpoints, epoch: int, addresses: Sequence[Address]) -> Iterator[None]:
        """Take checkpoints beside the block."""
        self._addresses = addresses
        contact, seconds = self._on.contact, self._settings.checkpoint_seconds
        taker = RemoteTaker(
            addresses, contact, self._in_step, lambda: self._monitor.state(self.finished), self._recoveries.saved
        )
        with Checkpointer(checkpoints, epoch, seconds, taker, self._monitor.note) as self._checkpointer:
            yield

    @property
    def kept(self) -> KeptPass | None:
        """The rows of the best pass; None where what the shards hold at the end becomes the version."""
        return self._monitor.kept

    def learn(self, job: Job, draft: Draft) -> Validated | None:
        """Learn all passes, one after the other where they must be; return what those say, and pause with a checkpoint.

        Raises:
            LostError, XpsqlError: see run_workers.
        """
        validated = None
        if self._by_pass:
            learn, keep = functools.partial(self.learn_pass, job), functools.partial(self.keep, draft)
            validated = learn_by_pass(self._prepared, self._monitor, RemotePasses(learn, self.pull, keep))
        else:
            self.run_workers(job)
        if self._prepared.trial.pause is not None:
            self._checkpointer.take()
        return validated

    def learn_pass(self, job: Job, number: int) -> None:
        """Learn a pass; workers that ended with the one before are started again.

        Raises:
            LostError, XpsqlError: see run_workers.
        """
        if number != self._begun_with:
            self._on.coordinator.dismiss("worker")
            with self._checkpointer.between():
                self._begin_pass(number)
            self._dealer.open(number)
            self._begin_pace()
            self._generation += 1
            self.start_workers(self._on, job)
        if self._dealer.unfinished:
            self.run_workers(job)
        else:
            self._on.wait_for_workers()
        with self._checkpointer.between():
            self._tell(number, self._prepared.ends_passes, over=True)

    def _begin_pass(self, number: int) -> None:
        """Let shards begin a pass, after what follows the one before."""
        if number > self._prepared.first_pass:
            self._tell(number - 1, self._prepared.ends_passes, over=True)  # a checkpoint may be older
        self._tell(number, self._prepared.counts_by_pass)

    def _tell(self, number: int, matters: bool, over: bool = False) -> None:
        """Tell shards, where it matters to them, that a pass begins or is over."""
        if matters:
            with self._asking:
                self._client.each(BEGIN_PASS, PassBegin(number, over), SAVE_SECONDS)

    def pull(self, keys: Keys, size: int) -> Pulled:
        """Pull from the shards; used by one thread at a time."""
        with self._asking:
            return self._client.pull(keys, size)

    def save(self, best: int) -> SavedShards:
        """Let the shards write what they hold; see Save."""
        with self._on.contact.dial_shards(self._addresses, DEADLINE_SECONDS) as client:
            saved = merged_saved(client.each(SAVE, Save(best), SAVE_SECONDS))
        return SavedShards(saved, self.describe())

    def keep(self, draft: Draft, number: int) -> None:
        """Let the shards write a pass that is the best so far."""
        keep_pass(number, lambda files: self.save(number), self._prepared, draft, self._monitor, self._checkpointer)

    def run_workers(self, job: Job) -> None:
        """Let workers learn until all turns are finished.

        Raises:
            LostError: a task is lost that nobody replaces.
            XpsqlError: of the first task that failed.
        """
        while self._dealer.unfinished:
            try:
                self._on.wait_for_workers()
                if self._dealer.unfinished:
                    raise LostError(f"The workers of {job.contact.job} ended before {self._dealer.unfinished} of their turns.")
            except LostError as error:
                if self._in_step or self._on.coordinator.failed:
                    raise
                self._begin_again(error)
                self._generation += 1
                self.start_workers(self._on, job)
        self._recoveries.over()  # where a loss left nothing to deal again

    @property
    def finished(self) -> dict[Turn, int]:
        """How many batches each turn has, of those that are finished."""
        return self._dealer.finished

    def describe(self) -> Description:
        """Return what the shards hold."""
        with self._asking:
            return total(self._client.describe())

    def _standing(self) -> Standing:
        """Return how far the training has come, by the shards' watermarks."""
        with self._asking:
            standings = self._client.each(WATERMARKS, StandingRequest(), ASK_SECONDS)
        finished, entries = {**self._finished, **self._dealer.finished}, [entry for one in standings for entry in one.entries]
        return Standing(finished, lowest(entries), self._monitor.counted, highest(entries))

    def _begin_again(self, error: LostError) -> None:
        """Take back all workers' turns; others will take their numbers."""
        self._on.coordinator.dismiss("worker")
        self._answer_last()
        standing = self._standing()
        self._recoveries.lost("the workers", error)
        for number in range(self._num_workers):
            self._awaited |= set(self._dealer.give_back(number, standing))
        self._begin_pace()

    def _answer_last(self) -> None:
        """Wait for answers under way to workers that take part no more: what they are dealt and have counted is known then."""
        with self._dealing, self._reporting:
            pass

    def _begin_pace(self) -> None:
        slack = self._settings.slack if self._settings.sync == "ssp" else None
        self._pace = Pace(self._num_workers, slack, self._monitor.held_up)

    def _lost(self, number: int, why: str, silent_seconds: float) -> None:
        """Take back a lost worker's turns; if the shards cannot be asked, they are lost."""
        who = f"worker {number}"
        error = LostError(f"Lost {who}, {why.rstrip('.')}.")
        try:
            if not self._begun.is_set():  # it holds nothing
                self._recoveries.lost(who, error, silent_seconds)
                return
            self._answer_last()
            standing = self._standing()
            self._recoveries.lost(who, error, silent_seconds)
            self._pace.leave(number)
            self._speeds.forget(number)
            self._awaited |= set(self._dealer.give_back(number, standing))
        except TrainingError as given_up:
            self._on.coordinator.fail(given_up)

    def _left(self, role: str, number: int) -> None:
        """Let no worker wait for one that has left."""
        if role == "worker":
            self._pace.leave(number)

    def _take(self, request: Take) -> NextTurn:
        if not self._begun.wait(ASK_SECONDS):
            raise LostError(f"Worker {request.worker} asked for work before the driver had the addresses of the shards.")
        with self._dealing:
            self._on.coordinator.require("worker", *request)
            dealt = self._dealer.next(request.worker)
            if dealt is None and self._shares and self._dealer.unfinished:
                dealt = self._shared(request.worker)
                if dealt is None:
                    return NextTurn(-1, LATER)
            if dealt is not None:
                self._speeds.begin(request.worker)
        if dealt is not None:
            self._awaited.discard(dealt.turn)
            if not self._awaited:
                self._recoveries.over()
        return taken(dealt)

    def _shared(self, worker: int) -> TurnAssignment | None:
        """Deal the rest of a slower worker's turn to one without any (work stealing); None: there is none yet."""
        held = self._dealer.held
        if held[worker]:
            return None
        self._pace.leave(worker)  # no worker waits for it meanwhile
        with self._reporting:  # reports of its holder from now on are late
            chosen = self._speeds.choose(worker, held, self._monitor.counted)
            if chosen is None:
                return None
            try:
                return self._dealer.hand_over(*chosen, worker, self._standing())
            except TrainingError:  # shards that cannot be asked are lost, as others find out
                return None

    def _step(self, request: StepRequest) -> StepPermission:
        self._on.coordinator.require("worker", *request)
        return StepPermission(self._pace.step(request.worker))

    def _report(self, report: Report) -> Terms:
        with self._reporting:
            self._on.coordinator.require("worker", report.worker, report.attempt)
            self._dealer.require({one.turn: max(one.counted, one.ended, 0) for one in report.turns})
            terms = {one.turn: self._dealer.term(one.turn) for one in report.turns}
            current = tuple(one for one in report.turns if one.term == terms[one.turn])
            before = self._monitor.counted
            self._monitor.absorb(report._replace(turns=current))
            for one in current:
                self._speeds.learned(report.worker, max(0, one.counted - before.get(one.turn, 0)))
                if one.ended >= 0:
                    self._dealer.finish(report.worker, one.turn, one.ended)
        return Terms(as_lines({one.turn: terms[one.turn] for one in report.turns if one.term != terms[one.turn]}))

    def _pressed(self, pressed: MemoryPressure) -> Acknowledged:
        """Report that a shard's memory is short; where it is full, take a last checkpoint and end the training."""
        self._monitor.note(pressed.message)
        if pressed.full:
            try:
                self._checkpointer.take()
            finally:
                self._on.coordinator.fail(TrainingError(pressed.message))
        return Acknowledged()

    def _slow(self, slow: Slow) -> Acknowledged:
        self._monitor.held_up(slow.workers, slow.seconds)
        return Acknowledged()
