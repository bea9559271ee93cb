"""All examples of a training on several tasks: an all-reduce by the driver, round by round.

A worker encodes its splits, reports their features, and asks again and again what to do next; the driver hands out weights and
sums losses and gradients.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engines.tasks import Task
from ...ps.moments import Moments, merged
from ...ps.transport.checks import check_shape, check_vectors, check_within
from ...ps.transport.wire import Acknowledged, Handler, Method
from ..compiled import prepare_task
from ..metrics.metrics import Tally
from ..tasks.cluster import POLL_SECONDS, wait_until
from ..tasks.job import Job, check_machine, prepared_of
from ..tasks.membership import CALL_SECONDS, EndedError, Membership
from .examples import Doubles, Evaluated, KeptExamples, KeyedFeatures, united
from .rates import NOTHING_KEPT, OfferedColumns

WAIT_SECONDS = 0.5
BEGIN, EVALUATE, MEASURE, END, NOTHING = range(5)

Array = NDArray[np.float64]
NO_NUMBERS: Array = np.empty(0)


class EncodedFeatures(NamedTuple):
    """A worker has encoded its examples: their features, the statistics of standardised slots, and what operators keep."""

    worker: int
    features: KeyedFeatures
    moments: Moments
    kept: OfferedColumns = NOTHING_KEPT


class OrderRequest(NamedTuple):
    """A worker's request for its next order."""

    worker: int
    done: int


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


HAVE = Method("have", EncodedFeatures, Acknowledged)
ASK = Method("ask", OrderRequest, Order)
FOUND = Method("found", OrderResult, Acknowledged)
NO_MOMENTS = Moments(NO_NUMBERS, NO_NUMBERS, NO_NUMBERS)


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
        member.call(HAVE, EncodedFeatures(task.number, examples.features, examples.moments, examples.kept), CALL_SECONDS)
        carry_out(member, task.number, examples)


def carry_out(member: Membership, number: int, examples: KeptExamples) -> None:
    """Carry out the driver's orders until it ends the training."""
    done = 0
    while (order := member.call(ASK, OrderRequest(number, done), CALL_SECONDS)).what != END:
        if member.ended.is_set():
            raise EndedError
        if order.what == NOTHING:
            continue
        if order.what == BEGIN:
            examples.scale(order.moments)
            found = OrderResult(number, 0.0, NO_NUMBERS, None)
        elif order.what == MEASURE:
            found = OrderResult(number, 0.0, NO_NUMBERS, examples.measure(order.weights))
        else:
            found = OrderResult(number, *examples.evaluate(order.weights), None)
        member.call(FOUND, found, CALL_SECONDS)
        done += 1


class SolverRendezvous:
    """The driver's side.

    Args:
        num_workers: that take part.

    Attributes:
        handlers: how the driver answers.
    """

    def __init__(self, num_workers: int) -> None:
        self.handlers: list[Handler[Any, Any]] = [
            Handler(HAVE, self._have),
            Handler(ASK, self._ask),
            Handler(FOUND, self._found_by),
        ]
        self._num_workers = num_workers
        self._parts: dict[int, EncodedFeatures] = {}
        self._places: dict[int, NDArray[np.intp]] = {}
        self._found: dict[int, OrderResult] = {}
        self._order = Order(NOTHING, NO_MOMENTS, NO_NUMBERS)
        self._number = 0
        self._changed = threading.Condition()

    def examples(self, check: Callable[[], object]) -> tuple[KeyedFeatures, Moments, OfferedColumns]:
        """Wait for all workers' examples, and return their features and statistics, and what operators keep where there is one
        worker.

        Args:
            check: raises what went wrong with a worker.
        """
        wait_until(self._changed, lambda: len(self._parts) == self._num_workers, check)
        parts = [self._parts[number] for number in range(self._num_workers)]
        features, places = united([part.features for part in parts])
        self._places = {part.worker: place for part, place in zip(parts, places, strict=True)}
        return features, reduce(merged, (part.moments for part in parts)), parts[0].kept

    def begin(self, moments: Moments, check: Callable[[], object]) -> None:
        """Let workers standardise."""
        self._all(Order(BEGIN, moments, NO_NUMBERS), check)

    def evaluate(self, weights: Doubles, check: Callable[[], object]) -> Evaluated:
        """Return the sum of all workers' losses, and its gradient (an all-reduce, summed in the workers' order)."""
        gradient, loss = np.zeros_like(weights), 0.0
        for found in self._all(Order(EVALUATE, NO_MOMENTS, weights), check):
            gradient[self._places[found.worker]] += found.gradient
            loss += found.loss
        return Evaluated(loss, gradient)

    def measure(self, weights: Doubles, check: Callable[[], object]) -> list[tuple[Tally, ...]]:
        """Return the metrics of each worker's examples, of each label."""
        found = self._all(Order(MEASURE, NO_MOMENTS, weights), check)
        return [one.tallies for one in found if one.tallies is not None]

    def end(self, over: Callable[[], bool]) -> None:
        """Let workers end, and wait until they have."""
        with self._changed:
            self._order, self._number = Order(END, NO_MOMENTS, NO_NUMBERS), self._number + 1
            self._changed.notify_all()
        while not over():
            threading.Event().wait(POLL_SECONDS)

    def _all(self, order: Order, check: Callable[[], object]) -> list[OrderResult]:
        """Give an order and return each worker's result, in the workers' order."""
        with self._changed:
            self._order, self._number, self._found = order, self._number + 1, {}
            self._changed.notify_all()
        wait_until(self._changed, lambda: len(self._found) == self._num_workers, check)
        return [self._found[number] for number in range(self._num_workers)]

    def _check(self, worker: int) -> None:
        check_within("the number of a worker", worker, range(self._num_workers))

    def _have(self, have: EncodedFeatures) -> Acknowledged:
        self._check(have.worker)
        check_vectors(have.features._asdict())
        check_vectors(have.moments._asdict())
        have.kept.check()
        with self._changed:
            self._parts[have.worker] = have
            self._changed.notify_all()
        return Acknowledged()

    def _ask(self, ask: OrderRequest) -> Order:
        self._check(ask.worker)
        with self._changed:
            self._changed.wait_for(lambda: self._number > ask.done, WAIT_SECONDS)
            if self._number == ask.done:
                return Order(NOTHING, NO_MOMENTS, NO_NUMBERS)
            order = self._order
        weighs = order.what in (EVALUATE, MEASURE)
        return order._replace(weights=order.weights[self._places[ask.worker]]) if weighs else order

    def _found_by(self, found: OrderResult) -> Acknowledged:
        self._check(found.worker)
        with self._changed:
            if self._order.what == EVALUATE:
                shape = len(self._places[found.worker]), *self._order.weights.shape[1:]
                check_shape(f"the gradient of worker {found.worker}", found.gradient, shape)
            self._found[found.worker] = found
            self._changed.notify_all()
        return Acknowledged()
