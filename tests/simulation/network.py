"""A network of a world: connections on which messages keep their order, and which delay, cut, hold and repeat them."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from tests.simulation.world import Fiber, Process, World
from xpsql.platform.errors import LostError
from xpsql.platform.ps.client import Handle, Sharded
from xpsql.platform.ps.keyed import FOLD_ROWS, KeyedAnswer, KeyedRequest
from xpsql.platform.ps.messages import Description, Keys, Pulled, Push
from xpsql.platform.ps.networks.network_messages import OutputsAsked, OutputsMade
from xpsql.platform.ps.networks.network_shards import NetworkShards
from xpsql.platform.ps.service import (
    DESCRIBE,
    LEAVE,
    OUTPUTS,
    PULL,
    PULL_DENSE,
    PUSH,
    DensePull,
    DescriptionRequest,
    Pull,
    WorkerLeave,
)
from xpsql.platform.ps.transport.base import ServerTrust
from xpsql.platform.ps.transport.codec import Codec
from xpsql.platform.ps.transport.sockets import Address
from xpsql.platform.ps.transport.tls import Certificate
from xpsql.platform.ps.transport.wire import FAILURE, ConnectionLimits, Handler, Method, error_of, failure_of

SILENT_SECONDS = 30.0
"""After which either end of a connection takes the other for dead."""
LOOK_SECONDS = 0.5

A = TypeVar("A")
Q = TypeVar("Q")


class Message(NamedTuple):
    """A message as bytes."""

    rest: bytes
    contents_bytes: int

    @classmethod
    def of(cls, codec: Codec[Any], message: Any) -> Message:
        contents, count, body = codec.encode(message)
        return cls(b"".join((contents, *(bytes(piece) for piece in body))), count)

    def read(self, codec: Codec[Q]) -> Q:
        return codec.decode(np.frombuffer(self.rest, np.uint8).copy(), self.contents_bytes)


class Network:
    """The transport of all jobs of a world.

    Attributes:
        repeats: the share of pushes that are delivered twice.
        links: those that are open.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.repeats = 0.0
        self.links: list[Link] = []
        self.servers: dict[Address, SimulatedServer] = {}
        self._ports = itertools.count(1)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a world does not travel")

    @property
    def process(self) -> Process:
        """Whose fiber asks."""
        assert self.world.current is not None
        return self.world.current.process

    def seconds(self) -> float:
        """Draw how long a message takes."""
        drawn = self.world.random.random()
        return 0.0002 + 0.003 * drawn if drawn < 0.97 else 0.8 * (drawn - 0.96) / 0.04

    def dial(self, peer: str, address: Address, trust: ServerTrust) -> Link:
        self.world.step("dial")
        server = self.servers.get(address)
        if server is not None and max(server.process.unreachable, self.process.unreachable) > self.world.now:
            self.world.wait(lambda: False, 10.0)
            raise LostError(f"Cannot connect to {peer}: it does not answer.")
        if server is None or server.secret != trust.secret:
            raise LostError(f"Cannot connect to {peer}: nobody is at {address}.")
        return Link(self, server, peer)

    def dial_shards(self, addresses: Sequence[Address], trust: ServerTrust, seconds: float) -> ShardLinks:
        links: list[Link] = []
        try:
            for number, address in enumerate(addresses):
                links.append(self.dial(f"shard {number} of {len(addresses)}", address, trust))
        except BaseException:
            for link in links:
                link.close()
            raise
        return ShardLinks(self, links, seconds)

    def reaches(self, address: Address) -> bool:
        """What cannot be reached can be later: no network here forbids anything."""
        return True

    def serve(
        self,
        name: str,
        handlers: Sequence[Handler[Any, Any]],
        secret: bytes,
        host: str,
        limits: ConnectionLimits,
        certificate: Certificate | None,
    ) -> SimulatedServer:
        self.world.step("serve")
        return SimulatedServer(self, Address(host, next(self._ports)), name, handlers, secret)

    def deliver(self, link: Link, arrived: Callable[[], None], kept: list[float]) -> None:
        """Let a message arrive, after those that were sent before it on its way.

        Args:
            kept: when the one before it arrives; is set.
        """
        ends = link.process, link.server.process
        held = max((end.unreachable for end in ends), default=0.0)
        at = max(kept[0] + 1e-6, self.world.now + self.seconds(), held)
        kept[0] = at
        self.world.after(at - self.world.now, arrived)


class SimulatedServer:
    """What answers; see CallServer."""

    def __init__(
        self, network: Network, address: Address, name: str, handlers: Sequence[Handler[Any, Any]], secret: bytes
    ) -> None:
        self.address, self.name, self.secret = address, name, secret
        self.handlers = {handler.call.name: handler for handler in handlers}
        self.process = network.process
        self.serving: dict[Fiber, Link] = {}
        self._network = network
        self.links: list[Link] = []
        network.servers[address] = self
        self.process.deaths.append(self._died)

    def when_closed(self, closed: Callable[[], None]) -> None:
        """See CallServer."""
        assert self._network.world.current is not None
        link = self.serving.get(self._network.world.current)
        if link is not None:
            link.closed.append(closed)

    def close(self) -> None:
        """Answer no more."""
        self._network.servers.pop(self.address, None)
        for link in list(self.links):
            link.closed.clear()
            link.hang_up()

    def _died(self) -> None:
        self._network.servers.pop(self.address, None)
        for link in list(self.links):
            link.lose()

    def answer(self, name: str, message: Message) -> tuple[bool, Message]:
        """Answer a request."""
        handler = self.handlers[name]
        try:
            return True, Message.of(handler.call.answer, handler.answer(message.read(handler.call.request)))
        except Exception as error:
            return False, Message.of(FAILURE, failure_of(error, self.name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Link:
    """A connection; see CallLink. Each end has what has arrived and what is on its way to it."""

    def __init__(self, network: Network, server: SimulatedServer, peer: str) -> None:
        self._network, self.server, self.peer = network, server, peer
        self.process = network.process
        self.closed: list[Callable[[], None]] = []
        self.broken = False  # as the client sees it
        self._over = False  # as the server does
        self._requests: deque[tuple[int, str, Message]] = deque()
        self._answers: dict[int, tuple[bool, Message]] = {}
        self._numbers = itertools.count()
        self._to_server, self._to_client = [0.0], [0.0]
        self._torn = False
        server.links.append(self)
        network.links.append(self)
        self.process.deaths.append(self.lose)
        network.world.spawn(server.process, self._serve)

    def start(self, call: Method[Q, A], request: Q) -> Awaited[A]:
        """Send a request."""
        world = self._network.world
        world.step(f"send {call.name}")
        if self.broken:
            raise self._lost("the connection is gone")
        number, message = next(self._numbers), Message.of(call.request, request)
        self._network.deliver(self, lambda: self._arrive(number, call.name, message), self._to_server)
        if call is PUSH and world.random.random() < self._network.repeats:  # a packet that was sent again by another way
            world.after(self._network.seconds() * 200 * world.random.random(), lambda: self._repeat(message))
        return Awaited(self, call, number)

    def call(self, call: Method[Q, A], request: Q, seconds: float) -> A:
        """See CallLink."""
        return self.start(call, request).within(seconds)

    def ready(self, number: int, seconds: float) -> bool:
        """Wait until an answer is there, or never comes; return whether that is known."""
        return self._network.world.wait(lambda: number in self._answers or self.broken, seconds)

    def answer(self, number: int, call: Method[Q, A]) -> A:
        """Return an answer that is there."""
        if number not in self._answers:
            broken = self.broken
            self.close()
            raise self._lost("the connection is gone" if broken else "it does not answer")
        well, message = self._answers.pop(number)
        if not well:
            raise error_of(message.read(FAILURE))
        return message.read(call.answer)

    def _lost(self, why: str) -> LostError:
        return LostError(f"Lost {self.peer}: {why}.")

    def close(self) -> None:
        """See CallLink: what was sent arrives, then the end."""
        self.broken = True
        if self in self._network.links:
            self._network.links.remove(self)
            self._network.deliver(self, self._end, self._to_server)

    def hang_up(self) -> None:
        """Close it at the server's end."""
        self._over = True
        if self in self.server.links:
            self.server.links.remove(self)
        self._network.deliver(self, self._break, self._to_client)

    def lose(self) -> None:
        """Let both ends find out that the other one is gone: soon, or where it has vanished only by its silence."""
        vanished = (random := self._network.world.random).random() < 0.2
        for end in (self._break, self._end):
            self._network.world.after((SILENT_SECONDS if vanished else 0.0) + random.random() * 0.05, end)

    def cut(self) -> None:
        """Cut it: both ends find out, and what is on its way is lost, or arrives late."""
        random = self._network.world.random
        self._torn = random.random() < 0.5
        self._network.world.after(random.random() * 0.01, self._break)
        self._network.world.after(random.random() * (0.01 if self._torn else 3.0), self._end)

    def _break(self) -> None:
        self.broken = True

    def _end(self) -> None:
        self._over = True
        if self in self._network.links:
            self._network.links.remove(self)

    def _arrive(self, number: int, name: str, message: Message) -> None:
        if not self._torn and not self._over:
            self._requests.append((number, name, message))

    def _repeat(self, message: Message) -> None:
        """Deliver a push once more; nobody gets the answer."""
        if self.server.process.alive and self.server.address in self._network.servers:
            self._network.world.spawn(self.server.process, lambda: self.server.answer(PUSH.name, message))

    def _serve(self) -> None:
        world, server = self._network.world, self.server
        assert world.current is not None
        server.serving[world.current] = self
        while True:
            world.wait(lambda: bool(self._requests) or self._over, None)
            if not self._requests:
                break
            number, name, message = self._requests.popleft()
            world.step(f"serve {name}")
            answer = server.answer(name, message)
            self._network.deliver(self, lambda n=number, a=answer: self._answers.__setitem__(n, a), self._to_client)
        while self.closed:
            self.closed.pop()()


class Awaited(NamedTuple):
    """An answer on its way; see Handle."""

    link: Link
    method: Method[Any, Any]
    number: int
    seconds: float = 0.0

    def result(self) -> Any:
        return self.within(self.seconds)

    def within(self, seconds: float) -> Any:
        """Wait for it so long."""
        self.link.ready(self.number, seconds)
        return self.link.answer(self.number, self.method)


class ShardPort(NamedTuple):
    """A shard behind a link; see Port."""

    link: Link
    seconds: float

    def start_pull(self, keys: Keys, size: int, padded: bool, dense: bool) -> Handle[Pulled]:
        return self.link.start(PULL, Pull(keys, size, padded, spared=True))._replace(seconds=self.seconds)

    def start_pull_dense(self) -> Handle[Pulled]:
        return self.link.start(PULL_DENSE, DensePull(0, True))._replace(seconds=self.seconds)

    def start_push(self, push: Push) -> Handle[object]:
        return self.link.start(PUSH, push)._replace(seconds=self.seconds)

    def start_fold_rows(self, request: KeyedRequest) -> Handle[KeyedAnswer]:
        return self.link.start(FOLD_ROWS, request)._replace(seconds=self.seconds)

    def start_outputs(self, asked: OutputsAsked) -> Handle[OutputsMade]:
        return self.link.start(OUTPUTS, asked)._replace(seconds=self.seconds)

    def start_leave(self, worker: int) -> Handle[object]:
        return self.link.start(LEAVE, WorkerLeave(worker))._replace(seconds=self.seconds)


class ShardLinks(Sharded):
    """A client of shards; see ShardsClient."""

    def __init__(self, network: Network, links: Sequence[Link], seconds: float) -> None:
        self._remote = [ShardPort(link, seconds) for link in links]
        super().__init__(self._remote)
        self._network, self._links, self._seconds = network, links, seconds

    def describe(self) -> list[Description]:
        return self.each(DESCRIBE, DescriptionRequest(), self._seconds)

    def each(self, call: Method[Q, A], request: Q, seconds: float) -> list[A]:
        return self.spread(call, [request] * len(self._links), seconds)

    def spread(self, call: Method[Q, A], requests: Sequence[Q], seconds: float) -> list[A]:
        started = [link.start(call, request) for link, request in zip(self._links, requests, strict=True)]
        return [one.within(seconds) for one in started]

    def run_networks(self, sizes: dict[str, int], counts: Mapping[str, int]) -> NetworkShards:
        self.networks = NetworkShards(self._remote, sizes, counts)
        return self.networks

    def each_until(self, call: Method[Q, A], request: Q, given_up: Any) -> list[A]:
        started = [link.start(call, request) for link in self._links]
        for one in started:
            while not one.link.ready(one.number, LOOK_SECONDS):
                if given_up.is_set():
                    raise LostError(f"The {call.name} of {one.link.peer} was given up.")
        return [one.within(LOOK_SECONDS) for one in started]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for link in self._links:
            link.close()
