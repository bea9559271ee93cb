"""A package's training on several tasks: the rendezvous of workers and driver, and what they exchange.

A worker reports its categories, gets their numbers, and learns with the others. All end with the same model, which the first
one sends to the driver.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....algorithms.learner import Peers
from ...engines.tasks import Task
from ...ps.transport.checks import check_vectors
from ...ps.transport.wire import Acknowledged, Method
from ..compiled import prepare_task
from ..metrics.metrics import Tally
from ..solved.examples import KeyedFeatures, united
from ..solved.rates import NOTHING_KEPT, OfferedColumns
from ..tasks.collective import END, NOTHING, Check, Collective, OrderRequest, Orders
from ..tasks.job import Job, check_machine, own_host, prepared_of
from ..tasks.membership import CALL_SECONDS, EndedError, Membership
from .examples import PackageExamples, learner_of

LEARN = NOTHING + 1


class EncodedCategories(NamedTuple):
    """A worker has encoded its examples: their categories, where all meet (from the first worker), and what operators
    keep."""

    worker: int
    features: KeyedFeatures
    host: str
    port: int
    kept: OfferedColumns = NOTHING_KEPT


class Numbers(NamedTuple):
    """What to do, with the numbers of a worker's categories, and where the workers meet (LEARN)."""

    what: int
    numbers: NDArray[np.float32]
    host: str
    port: int


class LearnedModel(NamedTuple):
    """A worker has learned: the model's bytes, of the first worker, and the metrics of its examples."""

    worker: int
    model: NDArray[np.uint8]
    tallies: tuple[Tally, ...]


NO_NUMBERS = np.empty(0, np.float32)
HAVE = Method("have", EncodedCategories, Acknowledged)
ASK = Method("ask", OrderRequest, Numbers)
LEARNED = Method("learned", LearnedModel, Acknowledged)
ORDERS = Orders(
    HAVE,
    ASK,
    LEARNED,
    Numbers(NOTHING, NO_NUMBERS, "", 0),
    Numbers(END, NO_NUMBERS, "", 0),
)


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
            found = EncodedCategories(number, examples.features, host, port, examples.kept)
            member.call(HAVE, found, CALL_SECONDS)

            def learn(numbers: Numbers) -> LearnedModel:
                peers = Peers(number, numbers.host, numbers.port) if count > 1 else None
                model, tallies = examples.learn(numbers.numbers, task.cores, peers)
                return LearnedModel(number, np.frombuffer(model if number == 0 else b"", np.uint8), tallies)

            ORDERS.carry_out(member, number, learn)


class LearnerRendezvous:
    """The driver's side.

    Args:
        num_workers: that take part.

    Attributes:
        collective: of the workers.
        kept: what operators keep of features, from the only worker, where they keep anything; known with the features.
    """

    def __init__(self, num_workers: int) -> None:
        self.collective = Collective(ORDERS, num_workers, check_categories)
        self.kept = NOTHING_KEPT
        self._places: list[NDArray[np.intp]] = []

    def features(self, check: Check) -> KeyedFeatures:
        """Wait for all workers' examples, and return their categories."""
        parts = self.collective.gather(check)
        self._host, self._port, self.kept = parts[0].host, parts[0].port, parts[0].kept
        features, self._places = united([part.features for part in parts])
        return features

    def learned(self, numbers: NDArray[np.float32], check: Check) -> tuple[bytes, list[tuple[Tally, ...]]]:
        """Let the workers learn with these numbers of all categories, and return the model and their metrics."""
        learned = self.collective.all(
            lambda worker: Numbers(LEARN, numbers[self._places[worker]], self._host, self._port), check
        )
        return learned[0].model.tobytes(), [one.tallies for one in learned]


def check_categories(have: EncodedCategories) -> None:
    """Refuse a worker's categories that do not fit together."""
    check_vectors(have.features._asdict())
    have.kept.check()
