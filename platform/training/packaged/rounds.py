"""A package's training on several tasks: the rendezvous of workers and driver, and what they exchange.

A worker encodes its splits, reports their categories, gets the numbers of these, and learns with the others. All end with the
same model, which the first one sends to the driver.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....algorithms.learner import Peers
from ...engines.tasks import Task
from ...ps.transport.checks import check_vectors, check_within
from ...ps.transport.wire import Acknowledged, Handler, Method
from ..compiled import prepare_task
from ..metrics.metrics import Tally
from ..solved.examples import KeyedFeatures, united
from ..solved.rates import NOTHING_KEPT, OfferedColumns
from ..tasks.cluster import wait_until
from ..tasks.job import Job, check_machine, own_host, prepared_of
from ..tasks.membership import CALL_SECONDS, EndedError, Membership
from .examples import PackageExamples, learner_of

WAIT_SECONDS = 0.5


class EncodedCategories(NamedTuple):
    """A worker has encoded its examples: their categories, where all meet (from the first worker), and what operators
    keep."""

    worker: int
    features: KeyedFeatures
    host: str
    port: int
    kept: OfferedColumns = NOTHING_KEPT


class NumbersRequest(NamedTuple):
    """A worker's request for the numbers of its categories."""

    worker: int


class Numbers(NamedTuple):
    """The numbers of a worker's categories once they are known, and where the workers meet."""

    known: bool
    numbers: NDArray[np.float32]
    host: str
    port: int


UNKNOWN = Numbers(False, np.empty(0, np.float32), "", 0)


class LearnedModel(NamedTuple):
    """A worker has learned: the model's bytes, of the first worker, and the metrics of its examples."""

    worker: int
    model: NDArray[np.uint8]
    tallies: tuple[Tally, ...]


HAVE = Method("have", EncodedCategories, Acknowledged)
ASK = Method("ask", NumbersRequest, Numbers)
LEARNED = Method("learned", LearnedModel, Acknowledged)


def learn_part(job: Job, task: Task) -> None:
    """Run worker `task.number`: learn from the examples of some splits, together with the other workers.

    Raises:
        XpsqlError: of data, another worker or the driver; the driver has been notified if it can be.
    """
    check_machine(job.xpsql, job.folder)
    prepare_task(task.cores)
    number, count = task.number, job.input.places.workers
    with contextlib.suppress(EndedError), Membership(job.contact, "worker", number, task.attempt) as member:
        prepared = prepared_of(job)
        examples = PackageExamples(prepared, range(number, len(job.input.splits), count))
        host, receives = own_host(job.contact.address), number == 0 and count > 1
        gathering = learner_of(prepared).gathering(count, host) if receives else contextlib.nullcontext(0)
        with gathering as port:
            member.call(HAVE, EncodedCategories(number, examples.features, host, port, examples.kept), CALL_SECONDS)
            while not (learned := member.call(ASK, NumbersRequest(number), CALL_SECONDS)).known:
                if member.ended.is_set():
                    raise EndedError
            peers = Peers(number, learned.host, learned.port) if count > 1 else None
            model, tallies = examples.learn(learned.numbers, task.cores, peers)
            told_model = np.frombuffer(model if number == 0 else b"", np.uint8)
            member.call(LEARNED, LearnedModel(number, told_model, tallies), CALL_SECONDS)


class LearnerRendezvous:
    """The driver's side.

    Args:
        num_workers: that take part.

    Attributes:
        handlers: how the driver answers.
        kept: what operators keep of features, from the only worker, where they keep anything; known with the features.
    """

    def __init__(self, num_workers: int) -> None:
        self.handlers: list[Handler[Any, Any]] = [
            Handler(HAVE, self._have),
            Handler(ASK, self._ask),
            Handler(LEARNED, self._learned_by),
        ]
        self._num_workers = num_workers
        self.kept = NOTHING_KEPT
        self._parts: dict[int, EncodedCategories] = {}
        self._places: list[NDArray[np.intp]] = []
        self._numbers: list[NDArray[np.float32]] = []
        self._learned: dict[int, LearnedModel] = {}
        self._changed = threading.Condition()

    def features(self, check: Callable[[], object]) -> KeyedFeatures:
        """Wait for all workers' examples, and return their categories.

        Args:
            check: raises what went wrong with a worker.
        """
        wait_until(self._changed, lambda: len(self._parts) == self._num_workers, check)
        parts = [self._parts[number] for number in range(self._num_workers)]
        self._host, self._port, self.kept = parts[0].host, parts[0].port, parts[0].kept
        features, self._places = united([part.features for part in parts])
        return features

    def learned(self, numbers: NDArray[np.float32], check: Callable[[], object]) -> tuple[bytes, list[tuple[Tally, ...]]]:
        """Let the workers learn with these numbers of all categories, and return the model and their metrics."""
        with self._changed:
            self._numbers = [numbers[places] for places in self._places]
            self._changed.notify_all()
        wait_until(self._changed, lambda: len(self._learned) == self._num_workers, check)
        learned = [self._learned[number] for number in range(self._num_workers)]
        return learned[0].model.tobytes(), [one.tallies for one in learned]

    def _have(self, have: EncodedCategories) -> Acknowledged:
        check_vectors(have.features._asdict())
        have.kept.check()
        return self._told(self._parts, have.worker, have)

    def _ask(self, ask: NumbersRequest) -> Numbers:
        self._check(ask.worker)
        with self._changed:
            known = self._changed.wait_for(lambda: self._numbers, WAIT_SECONDS)
            return Numbers(True, self._numbers[ask.worker], self._host, self._port) if known else UNKNOWN

    def _learned_by(self, learned: LearnedModel) -> Acknowledged:
        return self._told(self._learned, learned.worker, learned)

    def _check(self, worker: int) -> None:
        check_within("the number of a worker", worker, range(self._num_workers))

    def _told(self, by: dict[int, Any], worker: int, what: object) -> Acknowledged:
        self._check(worker)
        with self._changed:
            by[worker] = what
            self._changed.notify_all()
        return Acknowledged()
