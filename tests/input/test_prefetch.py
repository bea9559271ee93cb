"""Running ahead of a consumer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator

import pytest

from xpsql.platform.input.prefetch import Abreast, Ahead


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


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_iterators_abreast_yield_everything_in_order(threads: int) -> None:
    def made() -> Generator[Callable[[], Generator[int, None, None]], None, None]:
        for number in range(30):
            yield lambda number=number: (10 * number + i for i in range(number % 4))  # type: ignore[misc]

    with Abreast(made, threads, 2) as items:
        assert list(items) == [10 * number + i for number in range(30) for i in range(number % 4)]
        assert items.ready
        assert next(items, None) is None


def test_an_error_comes_in_its_place_after_what_the_iterators_before_it_yield() -> None:
    later = threading.Event()

    def slow() -> Generator[int, None, None]:
        later.wait()
        yield 1

    def broken() -> Generator[int, None, None]:
        later.set()
        raise ValueError("split 7 is damaged")
        yield 2

    def made() -> Generator[Callable[[], Generator[int, None, None]], None, None]:
        yield slow
        yield broken
        raise ValueError("nobody comes so far")

    with Abreast(made, 2, 4) as items:
        assert next(items) == 1
        for _ in range(2):
            with pytest.raises(ValueError, match="split 7"):
                next(items)


def test_an_error_of_reading_comes_in_its_place() -> None:
    def made() -> Generator[Callable[[], Generator[int, None, None]], None, None]:
        yield lambda: (i for i in range(3))
        raise ValueError("the file is gone")

    with Abreast(made, 2, 4) as items:
        assert [next(items) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="gone"):
            next(items)


def test_leaving_early_stops_all_threads_and_closes_what_they_run() -> None:
    opened, closed = threading.Semaphore(0), threading.Semaphore(0)

    def endless() -> Generator[int, None, None]:
        opened.release()
        try:
            while True:
                yield 1
        finally:
            closed.release()

    def made() -> Generator[Callable[[], Generator[int, None, None]], None, None]:
        try:
            while True:
                yield endless
        finally:
            closed.release()

    with Abreast(made, 2, 3) as items:
        assert next(items) == 1
        for _ in range(2):
            opened.acquire()
    assert all(closed.acquire(blocking=False) for _ in range(3))


def test_no_more_iterators_are_begun_than_there_is_room_for() -> None:
    begun: list[int] = []

    def made() -> Generator[Callable[[], Generator[int, None, None]], None, None]:
        for number in range(20):
            begun.append(number)
            yield lambda number=number: (number for _ in range(3))  # type: ignore[misc]

    with Abreast(made, 2, 9) as items:
        for item in items:
            assert len(begun) - item <= 2 + 1 + 1  # a thread each and one more, after the one in hand
