"""The calls between clients, the holder of a service and its shards.

Orders travel as a word and JSON. Pulls and pushes are those of every shard, with the number of the table in the call's name.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from .. import parts
from ..errors import TrainingError
from ..ps.client import Client, Handle, LocalClient, Sharded
from ..ps.keyed import FOLD_ROWS, KeyedAnswer, KeyedRequest
from ..ps.messages import Keys, Pulled, Push
from ..ps.remote import Awaited
from ..ps.service import LEAVE, PULL, PULL_DENSE, PUSH, ROWS_ALONE, DensePull, Pull, WorkerLeave
from ..ps.shard import Shard
from ..ps.transport.connection import Connection, Exchange
from ..ps.transport.wire import Handler, Method
from .declared import DeclaredTables
from .functions import FOLD, FoldedState, FoldRequest, folded
from .held import Answer

Q = TypeVar("Q")
A = TypeVar("A")
Orders = Callable[[str, Mapping[str, Any]], Answer]


class ServiceOrder(NamedTuple):
    """An order: a word, and its values as JSON."""

    what: str
    values: str


class ServiceAnswer(NamedTuple):
    """The answer to an order, as JSON."""

    text: str


ORDER = Method("order", ServiceOrder, ServiceAnswer)


def ordered(what: str, values: Mapping[str, Any]) -> ServiceOrder:
    """Return an order."""
    return ServiceOrder(what, json.dumps(values))


def order_handler(carry_out: Orders) -> Handler[ServiceOrder, ServiceAnswer]:
    """Return how orders are answered."""

    def answer(request: ServiceOrder) -> ServiceAnswer:
        try:
            values = dict(json.loads(request.values))
            return ServiceAnswer(json.dumps(carry_out(request.what, values)))
        except (TypeError, KeyError, ValueError) as error:
            raise TrainingError(
                f"The order {request.what!r} has other values than this xpsql knows: {error}. Use one version everywhere."
            ) from error

    return Handler(ORDER, answer)


@functools.cache
def of_table(call: Method[Q, A], table: int) -> Method[Q, A]:
    """Return a shard's call for one of the tables of a service."""
    return Method(f"{table} {call.name}", call.request.declared, call.answer.declared)


class TablePort(NamedTuple):
    """A table of a shard behind a server; see Port. It has no dense parameters."""

    table: int
    connection: Connection
    exchange: Exchange
    seconds: float

    def start_pull(self, keys: Keys, size: int, padded: bool, dense: bool) -> Handle[Pulled]:
        """See Port."""
        request = Pull(keys, size, padded, ROWS_ALONE)
        return Awaited(self.exchange, self.connection.start(of_table(PULL, self.table), request), self.seconds)

    def start_pull_dense(self) -> Handle[Pulled]:
        """See Port."""
        return Awaited(self.exchange, self.connection.start(of_table(PULL_DENSE, self.table), DensePull(0)), self.seconds)

    def start_push(self, push: Push) -> Handle[object]:
        """See Port."""
        return Awaited(self.exchange, self.connection.start(of_table(PUSH, self.table), push), self.seconds)

    def start_fold_rows(self, request: KeyedRequest) -> Handle[KeyedAnswer]:
        """See Port."""
        return Awaited(self.exchange, self.connection.start(of_table(FOLD_ROWS, self.table), request), self.seconds)

    def start_fold(self, request: FoldRequest) -> Handle[FoldedState]:
        """Start a fold of its rows."""
        return Awaited(self.exchange, self.connection.start(of_table(FOLD, self.table), request), self.seconds)

    def start_leave(self, worker: int) -> Handle[object]:
        """See Port."""
        return Awaited(self.exchange, self.connection.start(of_table(LEAVE, self.table), WorkerLeave(worker)), self.seconds)


class TableClient(Client, Protocol):
    """A client of a table's shards, which can fold their rows, too."""

    def fold(self, request: FoldRequest) -> list[FoldedState]:
        """Return the states of all shards, in order."""
        ...


class RemoteTable(Sharded):
    """A client of a table whose shards are behind servers."""

    def __init__(self, ports: Sequence[TablePort]) -> None:
        super().__init__(ports)
        self._own = tuple(ports)

    def fold(self, request: FoldRequest) -> list[FoldedState]:
        """See TableClient."""
        return [one.result() for one in [port.start_fold(request) for port in self._own]]


class LocalTable(LocalClient):
    """A client of a table whose shards are in this process."""

    def __init__(self, declared: DeclaredTables, table: str, shards: Sequence[Shard]) -> None:
        super().__init__(shards, parts.READING.found)
        self._folded = functools.partial(folded, declared, table)
        self._own = tuple(shards)

    def fold(self, request: FoldRequest) -> list[FoldedState]:
        """See TableClient."""
        return [self._folded(shard, request) for shard in self._own]
