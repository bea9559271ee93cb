"""Running ahead of a consumer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator

import pytest

from xpsql.platform.input.prefetch import Ahead


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


class Watched(Ahead[int]):
    """Tells when its consumer has found nothing."""

    def __init__(self, make: Callable[[], Generator[int, None, None]], depth: int | None) -> None:
        super().__init__(make, depth)
        self.starved = threading.Semaphore(0)

    def _starve(self) -> None:
        super()._starve()
        self.starved.release()


@pytest.mark.parametrize(("depth", "grown"), [(None, [4, 8, 16]), (20, [20, 20, 20])])
def test_a_queue_that_was_full_and_is_empty_doubles_unless_its_depth_is_given(depth: int | None, grown: list[int]) -> None:
    filled, taken = threading.Semaphore(0), threading.Semaphore(0)

    def bursts() -> Generator[int, None, None]:
        for size in (2, 4, 8):
            yield from range(size)
            filled.release()
            ahead.starved.acquire()
            yield -1
            taken.acquire()

    ahead = Watched(bursts, depth)
    depths = []
    with ahead as items:
        for size in (2, 4, 8):
            filled.acquire()
            assert [next(items) for _ in range(size + 1)] == [*range(size), -1]
            depths.append(ahead.depth)
            taken.release()
    assert depths == grown


def test_a_queue_that_is_never_full_stays_short() -> None:
    def slow() -> Generator[int, None, None]:
        for i in range(9):
            ahead.starved.acquire()
            yield i

    ahead = Watched(slow, None)
    with ahead as items:
        assert list(zip(range(9), items, strict=False)) == [(i, i) for i in range(9)]
    assert ahead.depth == 2
