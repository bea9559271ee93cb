"""Workers that learn all examples at once: the driver gathers their examples, gives each an order, and gathers the results.

A worker reports what it has, and asks again and again for its next order; the driver reduces what all of them return.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ...ps.transport.checks import check_within
from ...ps.transport.wire import Acknowledged, Handler, Method
from .cluster import POLL_SECONDS, wait_until
from .membership import CALL_SECONDS, EndedError, Membership

WAIT_SECONDS = 0.5
Check = Callable[[], object]
"""Raises what went wrong with a worker."""


END, NOTHING = 0, 1
"""Orders that every kind of training has: the last one, and the answer where there is none yet."""


class OfWorker(Protocol):
    """What a worker sends."""

    @property
    def worker(self) -> int: ...


class AnOrder(Protocol):
    """What a worker is to do: END, NOTHING, or a number of the training's own."""

    @property
    def what(self) -> int: ...


class OrderRequest(NamedTuple):
    """A worker's request for its next order, after as many as it has carried out."""

    worker: int
    done: int


H = TypeVar("H", bound=OfWorker)
W = TypeVar("W", bound=AnOrder)
R = TypeVar("R", bound=OfWorker)


class Orders(NamedTuple, Generic[H, W, R]):
    """The requests of one kind of training, and the orders that bring no work.

    Attributes:
        have: reports a worker's examples.
        ask: asks for the next order.
        found: reports the result of an order.
        nothing, end: the orders of these kinds.
    """

    have: Method[H, Acknowledged]
    ask: Method[OrderRequest, W]
    found: Method[R, Acknowledged]
    nothing: W
    end: W

    def carry_out(self, member: Membership, number: int, do: Callable[[W], R]) -> None:
        """Carry out the driver's orders, as worker `number`, until the last one.

        Raises:
            EndedError: the training has ended.
        """
        done = 0
        while (order := member.call(self.ask, OrderRequest(number, done), CALL_SECONDS)).what != END:
            if member.ended.is_set():
                raise EndedError
            if order.what != NOTHING:
                member.call(self.found, do(order), CALL_SECONDS)
                done += 1


class Collective(Generic[H, W, R]):
    """The driver's side: gathers from all workers, and gives all of them orders.

    Args:
        num_workers: that take part.
        check_have: refuses examples that do not fit.
        check_result: refuses results that do not fit the worker's order.

    Attributes:
        handlers: how the driver answers.
    """

    def __init__(
        self,
        orders: Orders[H, W, R],
        num_workers: int,
        check_have: Callable[[H], None],
        check_result: Callable[[R, W], None] = lambda result, order: None,
    ) -> None:
        self.handlers: list[Handler[Any, Any]] = [
            Handler(orders.have, self.have),
            Handler(orders.ask, self.ask),
            Handler(orders.found, self.found),
        ]
        self._orders = orders
        self._num_workers = num_workers
        self._check_have = check_have
        self._check_result = check_result
        self._parts: dict[int, H] = {}
        self._results: dict[int, R] = {}
        self._order: Callable[[int], W] = lambda worker: orders.nothing
        self._number = 0
        self._changed = threading.Condition()

    def gather(self, check: Check) -> list[H]:
        """Wait for all workers' examples, and return them in the workers' order."""
        wait_until(self._changed, lambda: len(self._parts) == self._num_workers, check)
        return [self._parts[number] for number in range(self._num_workers)]

    def all(self, order: Callable[[int], W], check: Check) -> list[R]:
        """Give each worker its order, and return their results in the workers' order."""
        self._give(order)
        wait_until(self._changed, lambda: len(self._results) == self._num_workers, check)
        return [self._results[number] for number in range(self._num_workers)]

    def end(self, over: Callable[[], bool]) -> None:
        """Let workers end, and wait until they have."""
        self._give(lambda worker: self._orders.end)
        while not over():
            threading.Event().wait(POLL_SECONDS)

    def _give(self, order: Callable[[int], W]) -> None:
        with self._changed:
            self._order, self._number, self._results = order, self._number + 1, {}
            self._changed.notify_all()

    def have(self, have: H) -> Acknowledged:
        """Answer a worker that has encoded its examples."""
        self._check_have(have)
        return self._told(self._parts, have)

    def ask(self, ask: OrderRequest) -> W:
        """Answer a worker that asks for its next order: wait a moment for one."""
        self._check(ask.worker)
        with self._changed:
            self._changed.wait_for(lambda: self._number > ask.done, WAIT_SECONDS)
            order = self._order if self._number > ask.done else lambda worker: self._orders.nothing
        return order(ask.worker)

    def found(self, result: R) -> Acknowledged:
        """Answer a worker that has carried out its order."""
        self._check(result.worker)
        self._check_result(result, self._order(result.worker))
        return self._told(self._results, result)

    def _check(self, worker: int) -> None:
        check_within("the number of a worker", worker, range(self._num_workers))

    def _told(self, by: dict[int, Any], what: OfWorker) -> Acknowledged:
        self._check(what.worker)
        with self._changed:
            by[what.worker] = what
            self._changed.notify_all()
        return Acknowledged()
