"""A vertex program's training on several tasks: the driver sends each worker what its vertices send, and gets their inboxes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....algorithms.vertex_program import GraphRound, Values
from ...engines.tasks import Task
from ...ps.transport.checks import check_shape, check_vectors
from ...ps.transport.wire import Acknowledged, Method
from ..compiled import prepare_task
from ..tasks.collective import END, NOTHING, Check, Collective, OrderRequest, Orders
from ..tasks.job import Job, check_machine, prepared_of
from ..tasks.membership import CALL_SECONDS, EndedError, Membership
from .part import PartOfGraph, part_of

ALONG = NOTHING + 1
NO_VALUES: Values = np.empty(0, np.int64)


class Delivery(NamedTuple):
    """What the vertices of a worker send in a round: int64, or float64 to be multiplied by weights; one of both is empty."""

    what: int
    values: Values
    numbers: NDArray[np.float64]
    round: int
    seed: int


class Inboxes(NamedTuple):
    """The inboxes of a worker's vertices."""

    worker: int
    values: Values


NO_NUMBERS: NDArray[np.float64] = np.empty(0)
HAVE = Method("have", PartOfGraph, Acknowledged)
ASK = Method("ask", OrderRequest, Delivery)
FOUND = Method("found", Inboxes, Acknowledged)
ORDERS = Orders(HAVE, ASK, FOUND, Delivery(NOTHING, NO_VALUES, NO_NUMBERS, 0, 0), Delivery(END, NO_VALUES, NO_NUMBERS, 0, 0))


def keep_edges(job: Job, task: Task) -> None:
    """Run worker `task.number`: keep the edges of some splits, and carry out orders.

    Raises:
        XpsqlError: of data or the driver; the driver has been notified if it can be.
    """
    check_machine(job.xpsql, job.folder)
    prepare_task(task.cores)
    with contextlib.suppress(EndedError), Membership(job.contact, "worker", task.number, task.attempt) as member:
        part = part_of(prepared_of(job), task.number, job.input.places.workers)
        member.call(HAVE, part.found, CALL_SECONDS)

        def deliver(order: Delivery) -> Inboxes:
            messages: Any = order.numbers if len(order.numbers) else order.values
            return Inboxes(task.number, part.along(messages, GraphRound(order.round, order.seed)))

        ORDERS.carry_out(member, task.number, deliver)


class GraphRendezvous:
    """The driver's side.

    Args:
        num_workers: that take part.

    Attributes:
        collective: of the workers.
    """

    def __init__(self, num_workers: int) -> None:
        self.collective = Collective(ORDERS, num_workers, check_part, check_inboxes)

    def along(self, messages: Sequence[NDArray[Any]], at: GraphRound, check: Check) -> list[Values]:
        """Let each worker combine what its vertices send, and return their inboxes."""

        def order(worker: int) -> Delivery:
            own = messages[worker]
            whole = own.dtype == np.int64
            return Delivery(ALONG, own if whole else NO_VALUES, NO_NUMBERS if whole else own, *at)

        return [found.values for found in self.collective.all(order, check)]


def check_part(have: PartOfGraph) -> None:
    """Refuse a worker's vertices that do not fit together."""
    check_vectors({"keys of vertices": have.keys, "degrees of vertices": have.degree})
    check_shape(f"what leaves vertices of worker {have.worker}", have.out, (len(have.keys), have.out.shape[-1]))


def check_inboxes(found: Inboxes, order: Delivery) -> None:
    """Refuse inboxes of other vertices than those that the worker was sent messages of; pairs are in any number."""
    if order.round < 0:
        return
    check_shape(f"the inboxes of worker {found.worker}", found.values, (len(order.values) or len(order.numbers),))
