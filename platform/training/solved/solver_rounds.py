"""All examples of a solver's training on several tasks: the driver hands out weights, and sums losses and gradients."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engines.tasks import Task
from ...ps.moments import Moments, merged
from ...ps.transport.checks import check_shape, check_vectors
from ...ps.transport.wire import Acknowledged, Method
from ..compiled import prepare_task
from ..metrics.metrics import Tally
from ..tasks.collective import END, NOTHING, Check, Collective, OrderRequest, Orders
from ..tasks.job import Job, check_machine, prepared_of
from ..tasks.membership import CALL_SECONDS, EndedError, Membership
from .examples import Doubles, Evaluated, KeptExamples, KeyedFeatures, united
from .rates import NOTHING_KEPT, OfferedColumns

BEGIN, EVALUATE, MEASURE = range(NOTHING + 1, NOTHING + 4)

Array = NDArray[np.float64]
NO_NUMBERS: Array = np.empty(0)


class EncodedFeatures(NamedTuple):
    """A worker has encoded its examples: their features, the statistics of standardised slots, and what operators keep."""

    worker: int
    features: KeyedFeatures
    moments: Moments
    kept: OfferedColumns = NOTHING_KEPT


class Order(NamedTuple):
    """What to do, with the statistics to standardise by (BEGIN) or the weights of the worker's features (EVALUATE, MEASURE)."""

    what: int
    moments: Moments
    weights: Array


class OrderResult(NamedTuple):
    """A worker's result of an order: a loss and its gradient, or metrics."""

    worker: int
    loss: float
    gradient: Array
    tallies: tuple[Tally, ...] | None


NO_MOMENTS = Moments(NO_NUMBERS, NO_NUMBERS, NO_NUMBERS)
HAVE = Method("have", EncodedFeatures, Acknowledged)
ASK = Method("ask", OrderRequest, Order)
FOUND = Method("found", OrderResult, Acknowledged)
ORDERS = Orders(
    HAVE,
    ASK,
    FOUND,
    Order(NOTHING, NO_MOMENTS, NO_NUMBERS),
    Order(END, NO_MOMENTS, NO_NUMBERS),
)


def evaluate_examples(job: Job, task: Task) -> None:
    """Run worker `task.number`: keep the examples of some splits, and carry out orders.

    Raises:
        XpsqlError: of data or the driver; the driver has been notified if it can be.
    """
    check_machine(job.xpsql, job.folder)
    prepare_task(task.cores)
    with contextlib.suppress(EndedError), Membership(job.contact, "worker", task.number, task.attempt) as member:
        prepared = prepared_of(job)
        examples = KeptExamples(prepared, range(task.number, len(job.input.splits), job.input.places.workers), task.cores)
        found = EncodedFeatures(task.number, examples.features, examples.moments, examples.kept)
        member.call(HAVE, found, CALL_SECONDS)
        ORDERS.carry_out(member, task.number, functools.partial(carry_out, examples, task.number))


def carry_out(examples: KeptExamples, number: int, order: Order) -> OrderResult:
    """Carry out an order, as worker `number`."""
    if order.what == BEGIN:
        examples.scale(order.moments)
        return OrderResult(number, 0.0, NO_NUMBERS, None)
    if order.what == MEASURE:
        return OrderResult(number, 0.0, NO_NUMBERS, examples.measure(order.weights))
    return OrderResult(number, *examples.evaluate(order.weights), None)


class SolverRendezvous:
    """The driver's side.

    Args:
        num_workers: that take part.

    Attributes:
        collective: of the workers.
    """

    def __init__(self, num_workers: int) -> None:
        self.collective = Collective(ORDERS, num_workers, check_features, self._check_result)
        self._places: list[NDArray[np.intp]] = []

    def examples(self, check: Check) -> tuple[KeyedFeatures, Moments, OfferedColumns]:
        """Wait for all workers' examples, and return their features and statistics, and what operators keep where there is one
        worker."""
        parts = self.collective.gather(check)
        features, self._places = united([part.features for part in parts])
        return features, reduce(merged, (part.moments for part in parts)), parts[0].kept

    def begin(self, moments: Moments, check: Check) -> None:
        """Let workers standardise."""
        self.collective.all(lambda worker: Order(BEGIN, moments, NO_NUMBERS), check)

    def evaluate(self, weights: Doubles, check: Check) -> Evaluated:
        """Return the sum of all workers' losses, and its gradient (an all-reduce, summed in the workers' order)."""
        gradient, loss = np.zeros_like(weights), 0.0
        for found in self.collective.all(self._weighing(EVALUATE, weights), check):
            gradient[self._places[found.worker]] += found.gradient
            loss += found.loss
        return Evaluated(loss, gradient)

    def measure(self, weights: Doubles, check: Check) -> list[tuple[Tally, ...]]:
        """Return the metrics of each worker's examples, of each label."""
        found = self.collective.all(self._weighing(MEASURE, weights), check)
        return [one.tallies for one in found if one.tallies is not None]

    def _weighing(self, what: int, weights: Doubles) -> Callable[[int], Order]:
        """Return the order of each worker that comes with the weights of its features."""
        return lambda worker: Order(what, NO_MOMENTS, weights[self._places[worker]])

    def _check_result(self, found: OrderResult, order: Order) -> None:
        if order.what == EVALUATE:
            check_shape(f"the gradient of worker {found.worker}", found.gradient, order.weights.shape)


def check_features(have: EncodedFeatures) -> None:
    """Refuse a worker's features that do not fit together."""
    check_vectors(have.features._asdict())
    check_vectors(have.moments._asdict())
    have.kept.check()
