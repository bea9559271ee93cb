"""Rows pulled ahead: while a program works on one item, a thread pulls the rows of the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from ..ps._native import unique
from ..ps.client import Client
from ..ps.compiled.ladder import Ladder
from ..ps.keys import Keys
from .values import Floats

T = TypeVar("T")


class AheadRows(NamedTuple):
    """The rows of distinct keys of a table, float32[k, dim]."""

    keys: Keys
    rows: Floats


Needs = Callable[[T], Mapping[str, Keys]]
"""(item) -> the keys of each table whose rows the work on it pulls, in the order in which it does."""
Offer = Callable[[Mapping[str, AheadRows]], None]


def pulled_ahead(items: Iterable[T], needs: Needs[T], depth: int, clients: Mapping[str, Client], offer: Offer) -> Iterator[T]:
    """Yield items, each with its rows on offer, which are pulled while up to `depth` items before it are worked on.

    Args:
        clients: by table; this thread's alone, or of any.
        offer: gets the rows of the item that is yielded next.
    """
    ladder, coming = Ladder(), deque[tuple[T, Future[dict[str, AheadRows]]]]()

    def pull(item: T) -> dict[str, AheadRows]:
        found = {}
        for table, keys in needs(item).items():
            distinct, _ = unique(keys)
            if len(distinct):
                rows = clients[table].pull(distinct, ladder.size(len(distinct))).weights[table]
                found[table] = AheadRows(distinct, rows[: len(distinct)].copy())
        return found

    with ThreadPoolExecutor(1, "xpsql rows ahead") as pool:
        try:
            for item in items:
                coming.append((item, pool.submit(pull, item)))
                if len(coming) > depth:
                    yield next_of(coming, offer)
            while coming:
                yield next_of(coming, offer)
        finally:
            for _, rows in coming:
                rows.cancel()
            offer({})


def next_of(coming: deque[tuple[T, Future[dict[str, AheadRows]]]], offer: Offer) -> T:
    item, rows = coming.popleft()
    offer(rows.result())
    return item
