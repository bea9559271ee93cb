"""Scoring on the tasks of an engine: servers hold a version's rows, workers pull the rows that their splits need.

A worker that is lost is replaced; where a server is lost, all tasks begin again. Either way written splits stay.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..engines.tasks import Task, Tasks
from ..errors import LostError, TrainingError
from ..input.dealing import Dealer, Standing
from ..ps.remote import DEADLINE_SECONDS
from ..ps.service import pull_handler
from ..ps.transport.checks import COUNT, check_within
from ..ps.transport.connection_limits import room_for
from ..ps.transport.over_sockets import SOCKETS
from ..ps.transport.tls import Certificate
from ..ps.transport.wire import Acknowledged, Handler, Method
from ..ps.watermarks import Turn, turns_of
from ..training.checkpoints.recovery import MOST
from ..training.compiled import limit_threads, prepare_task
from ..training.parallelism import Places, scoring_places
from ..training.tasks.cluster import cluster
from ..training.tasks.coordinator import Coordinator
from ..training.tasks.job import TAKE, WAIT_SECONDS, NextTurn, Take, check_machine, own_host, own_version, taken
from ..training.tasks.membership import CALL_SECONDS, EndedError, Membership
from ..training.tasks.messages import Contact
from .explainer import Explainer
from .scorer import Request, Scorer
from .scorer_cache import scorer_of
from .weights import Weights

if TYPE_CHECKING:
    from ..progress import Reporter


class ScoringJob(NamedTuple):
    """What the tasks of a prediction need to know; travels by pickle.

    Attributes:
        xpsql: the driver's version.
        folder: where files go, on all machines.
    """

    contact: Contact
    xpsql: str
    request: Request
    places: Places
    folder: Path


class RowsWritten(NamedTuple):
    """How many rows of a split a worker has written, and whether that is all of it."""

    worker: int
    attempt: int
    split: int
    rows: int
    whole: bool


WROTE = Method("wrote", RowsWritten, Acknowledged)


def score_on(tasks: Tasks, request: Request, folder: Path, reporter: Reporter) -> list[Path]:
    """Score on an engine's tasks; return the files, one for each split.

    Args:
        folder: empty; all machines share it.

    Raises:
        TrainingError: tasks are lost for the eleventh time while no further split is written.
        XpsqlError: of the first task that failed.
    """
    manifest = request.version.manifest
    weight_bytes = (manifest.learned.rows or 0) * sum(8 + 4 * table.dim for table in manifest.tables)  # a key and its floats
    places = scoring_places(tasks, weight_bytes, len(request.splits))
    driver = ScoringDriver(len(request.splits), places.workers, reporter)
    while driver.unfinished:
        try:
            score_once(tasks, request, places, folder, driver)
        except LostError as error:
            driver.lost(error)
    return [part_path(folder, number) for number in range(len(request.splits))]


def score_once(tasks: Tasks, request: Request, places: Places, folder: Path, driver: ScoringDriver) -> None:
    """Score what is not written yet.

    Raises:
        LostError: a server is lost, or workers that nobody replaces.
        XpsqlError: see score_on.
    """
    manifest = request.version.manifest
    name, encrypt = f"predictions of {manifest.model} v{manifest.version}", bool(manifest.settings.get("encrypt"))
    with cluster(tasks, name, places, driver.handlers, lambda role, number: None, driver.lost_worker, encrypt, SOCKETS) as on:
        driver.begin(on.coordinator)
        job = ScoringJob(on.contact, own_version(), request, places, folder)
        on.start_shards(functools.partial(host_weights, job, on.certificate), places.shards)
        on.start_workers(functools.partial(score_splits, job), places.workers, f"xpsql: {name}", False)
        on.wait_for_workers()
        if driver.unfinished:
            raise LostError(f"The workers of {name} ended before {driver.unfinished} splits were written.")
        on.end()


class ScoringDriver:
    """The driver's part: it deals splits, and knows which are written; thread-safe.

    Args:
        num_splits: of the input.
        num_workers: that score.
    """

    def __init__(self, num_splits: int, num_workers: int, reporter: Reporter) -> None:
        self._turns = turns_of(num_splits, 1)
        self._num_workers = num_workers
        self._reporter = reporter
        self._lock = threading.Lock()
        self._rows = dict.fromkeys(range(num_splits), 0)
        self._examples = 0
        self._finished: dict[Turn, int] = {}
        self._losses = 0

    def begin(self, coordinator: Coordinator) -> None:
        """Deal what is not written to the workers of a cluster."""
        self._coordinator = coordinator
        self._dealer = Dealer(self._turns, self._num_workers, fixed=False, standing=Standing(self._finished, self._finished))

    @property
    def handlers(self) -> tuple[Handler[Any, Any], ...]:
        """How it answers the requests and reports of workers."""
        return Handler(TAKE, self._take), Handler(WROTE, self._wrote)

    @property
    def unfinished(self) -> int:
        """How many splits are not written."""
        return len(self._turns) - len(self._finished)

    def lost(self, error: LostError) -> None:
        """Note that all tasks begin again, unless all is written.

        Raises:
            TrainingError: see score_on.
        """
        if self.unfinished:
            self._note(error, f"{error} {self.unfinished} of {len(self._turns)} splits are scored again.")

    def lost_worker(self, number: int, why: str, silent_seconds: float) -> None:
        """Take back what a lost worker held; see Coordinator."""
        error = LostError(f"Lost worker {number}, {why.rstrip('.')}.")
        try:
            self._note(error, f"{error} Its split is scored again.")
            self._dealer.give_back(number, Standing())
        except TrainingError as given_up:
            self._coordinator.fail(given_up)

    def _note(self, error: LostError, message: str) -> None:
        with self._lock:
            self._losses += 1
            self._reporter.note(message)
            if self._losses > MOST:
                raise TrainingError(f"Lost tasks {self._losses} times while no further split was written. {error}") from error

    def _take(self, request: Take) -> NextTurn:
        self._coordinator.require("worker", *request)
        return taken(self._dealer.next(request.worker))

    def _wrote(self, wrote: RowsWritten) -> Acknowledged:
        self._coordinator.require("worker", wrote.worker, wrote.attempt)
        check_within("the number of a split", wrote.split, range(len(self._turns)))
        check_within("the rows of a split", wrote.rows, COUNT)
        with self._lock:
            self._examples += wrote.rows - self._rows[wrote.split]
            self._rows[wrote.split] = wrote.rows
            if wrote.whole:
                turn = Turn(0, wrote.split)
                self._finished[turn], self._losses = 1, 0
                self._dealer.finish(wrote.worker, turn, 1)
            self._reporter.update(self._examples, {})
        return Acknowledged()


def part_path(folder: Path, split: int) -> Path:
    return folder / f"predictions-{split:06d}.parquet"


def host_weights(job: ScoringJob, certificate: Certificate | None, task: Task) -> None:
    """Hold the rows of some slices of a version, as task `task.number` of several, until it is asked to stop."""
    check_machine(job.xpsql, job.folder)
    limit_threads(task.cores)
    name, contact = f"shard {task.number} of {job.contact.job}", job.contact
    with contextlib.suppress(EndedError), Membership(contact, "shard", task.number, task.attempt) as member:
        weights = Weights(job.request.version, task.number, job.places.shards)
        handlers, host, limits = [pull_handler(weights.pull)], own_host(contact.address), room_for(job.places.workers)
        with contact.transport.serve(name, handlers, contact.secret, host, limits, certificate) as server:
            member.ready(server.address)
            member.stay()


def score_splits(job: ScoringJob, task: Task) -> None:
    """Take splits from the driver, one after the other, and write their predictions."""
    check_machine(job.xpsql, job.folder)
    prepare_task(task.cores)
    with (
        contextlib.suppress(EndedError),
        Membership(job.contact, "worker", task.number, task.attempt) as member,
        member.dial_shards(WAIT_SECONDS, DEADLINE_SECONDS) as client,
    ):
        request = job.request
        scorer = (
            scorer_of(request.version, client.pull)
            if request.top is None
            else Explainer(request.version, client.pull, request.top, request.reference)
        )
        while (split := member.call(TAKE, Take(task.number, task.attempt), CALL_SECONDS).split) >= 0:
            write(job, task, split, scorer, member)


def write(job: ScoringJob, task: Task, split: int, scorer: Scorer | Explainer, member: Membership) -> None:
    """Write the predictions of a split: a file that is there is whole, whoever else may write the same split.

    Raises:
        EndedError: the task must end.
    """
    path, rows = part_path(job.folder, split), 0
    begun = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    for more in scorer.write(job.request, [job.request.splits[split]], begun):
        if member.ended.is_set():
            raise EndedError
        rows += more
        member.call(WROTE, RowsWritten(task.number, task.attempt, split, rows, False), CALL_SECONDS)
    begun.replace(path)
    member.call(WROTE, RowsWritten(task.number, task.attempt, split, rows, True), CALL_SECONDS)
