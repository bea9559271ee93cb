"""Running ahead of a consumer."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from xpsql.platform.flow.ahead import Ahead


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
