"""Pushes that arrive late, or in another order than they were sent: each counts once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
import pytest

from tests.chaos.proxy import Proxy
from tests.ps.serving import HOST, SECRET, tcp
from tests.ps.test_watermarks import assert_same, fresh, push_of, shard, state
from xpsql.platform.errors import LostError, TrainingError
from xpsql.platform.ps.service import PUSH, WATERMARKS, StandingRequest, shard_handlers
from xpsql.platform.ps.shard import Shard
from xpsql.platform.ps.transport.connection import Connection, Exchange, PendingAnswer
from xpsql.platform.ps.transport.server import Server
from xpsql.platform.ps.transport.sockets import Address
from xpsql.platform.ps.transport.wire import Acknowledged, ConnectionLimits
from xpsql.platform.ps.watermarks import Turn

SECONDS = 30.0


@contextmanager
def behind_a_proxy(served: Shard) -> Iterator[tuple[Proxy, Address]]:
    """Give a proxy before a shard, and the shard's own address."""
    with Server("the shard", shard_handlers(served), SECRET, HOST) as server, Proxy(tcp(server.address)) as proxy:
        yield proxy, tcp(server.address)


def connected(address: Address) -> Connection:
    return Connection("the shard", address, SECRET, ConnectionLimits(), None)


def push(connection: Connection, *batches: int) -> None:
    for batch in batches:
        connection.call(PUSH, push_of(batch), SECONDS)


def send(connection: Connection, *batches: int) -> list[PendingAnswer[Acknowledged]]:
    """Push without waiting for answers."""
    return [connection.start(PUSH, push_of(batch)) for batch in batches]


def pushes(data: bytes) -> int:
    """Count the pushes in what was sent."""
    return data.count(PUSH.kind)


def until_held(proxy: Proxy, count: int) -> None:
    """Wait until so many pushes are held back."""
    deadline = time.monotonic() + SECONDS
    while pushes(proxy.held) < count and time.monotonic() < deadline:
        time.sleep(0.001)
    assert pushes(proxy.held) == count


def in_order(batches: int) -> Shard:
    """Return a shard that got each batch once, in order."""
    expected = shard(fresh())
    for batch in range(batches):
        expected.push(push_of(batch))
    return expected


@pytest.mark.parametrize("late", [True, False], ids=["after", "before"])
def test_what_a_dead_connection_still_delivers_counts_once(late: bool) -> None:
    served = shard(fresh())
    with behind_a_proxy(served) as (proxy, address):
        with closing(connected(proxy.address)) as first:
            push(first, 0, 1)
            proxy.hold()
            unanswered = send(first, 2, 3)
            until_held(proxy, 2)
            proxy.cut()
            with pytest.raises(LostError):
                Exchange([first]).result(unanswered[0], SECONDS)
        with closing(connected(address)) as second:
            assert second.call(WATERMARKS, StandingRequest(), SECONDS).entries[0].applied == {Turn(0, 0): 2}
            if late:
                push(second, 2, 3, 4)
            assert pushes(proxy.deliver()) == 2
            push(second, 2, 3, 4)
    assert_same(served, in_order(5))


def test_what_arrives_before_what_was_sent_earlier_counts_once() -> None:
    served = shard(fresh())
    with (
        behind_a_proxy(served) as (proxy, address),
        closing(connected(proxy.address)) as early,
        closing(connected(address)) as later,
    ):
        push(early, 0)
        proxy.hold()
        unanswered = send(early, 1, 2)
        until_held(proxy, 2)
        later.call(PUSH, push_of(0, split=1), SECONDS)
        assert served.progress()[0].applied == {Turn(0, 0): 1, Turn(0, 1): 1}
        proxy.deliver()
        for one in unanswered:
            Exchange([early]).result(one, SECONDS)
    expected = in_order(3)
    expected.push(push_of(0, split=1))
    found, wanted = state(served), state(expected)
    for name in ("keys", "count", "shows", "clicks", "updates", "examples"):
        np.testing.assert_array_equal(found[name], wanted[name])


def test_what_a_replaced_drivers_worker_still_pushes_is_refused() -> None:
    served = shard(fresh(epoch=1))
    with behind_a_proxy(served) as (proxy, address), closing(connected(proxy.address)) as old:
        with closing(connected(address)) as new:
            new.call(PUSH, push_of(0, epoch=1), SECONDS)
        before = state(served)
        proxy.hold()
        (late,) = send(old, 1)
        until_held(proxy, 1)
        proxy.deliver()
        with pytest.raises(TrainingError, match=r"Expected pushes of epoch 1, got one of epoch 0"):
            Exchange([old]).result(late, SECONDS)
        for name, values in state(served).items():
            np.testing.assert_array_equal(values, before[name])
