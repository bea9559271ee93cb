"""Running ahead, pacing, and gangs."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from xpsql.platform.flow.ahead import Ahead
from xpsql.platform.flow.worker import Pace


def test_ahead_yields_everything_in_order() -> None:
    with Ahead(lambda: (i for i in range(100)), 3) as items:
        assert list(items) == list(range(100))


def test_ahead_hands_an_error_to_its_consumer() -> None:
    def broken() -> Generator[int, None, None]:
        yield 1
        raise ValueError("split 7 is damaged")

    with Ahead(broken, 2) as items:
        assert next(items) == 1
        with pytest.raises(ValueError, match="split 7"):
            next(items)


def test_leaving_early_stops_the_thread_and_closes_the_iterator() -> None:
    closed = threading.Event()

    def endless() -> Generator[int, None, None]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    with Ahead(endless, 2) as items:
        assert next(items) == 1
    assert closed.is_set()


def test_ahead_never_holds_more_than_its_depth() -> None:
    made = []

    def counted() -> Generator[int, None, None]:
        for i in range(50):
            made.append(i)
            yield i

    with Ahead(counted, 4) as items:
        for item in items:
            assert len(made) - item <= 4 + 3  # the queue, one waiting for a place, one in hand


def test_ssp_holds_a_worker_back_until_the_slowest_follows() -> None:
    pace, stopped, passed = Pace(2, slack=1), threading.Event(), threading.Event()

    def fast() -> None:
        for _ in range(3):
            pace.wait(0, stopped)
            pace.step(0)
        passed.set()

    thread = threading.Thread(target=fast)
    thread.start()
    assert not passed.wait(0.1)  # its third step would be two ahead of worker 1
    pace.step(1)
    thread.join(5)
    assert passed.is_set()


def test_a_worker_that_has_left_holds_nobody_back() -> None:
    pace, stopped = Pace(2, slack=0), threading.Event()
    pace.step(0)
    pace.leave(1)
    pace.wait(0, stopped)
    pace.step(0)
    pace.wait(0, stopped)
