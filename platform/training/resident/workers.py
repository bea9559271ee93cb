"""The workers of a resident training: threads, each of which learns from one increment after the other."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from ...cores import cores
from ...input.batches import Batch
from ...input.prefetch import Ahead
from ...input.source import End
from ...input.splits import chunk_batches
from ...input.timing import Clocks
from ...ps.client import LocalClient
from ...stacks import roomy
from ..compiled import share_work
from ..online.pace import Pace
from ..online.worker import Worker
from ..prepared import Prepared
from .increment import Increment

Item = Batch | End | Increment
SWITCH_SECONDS = 0.0005


@contextmanager
def promptly() -> Iterator[None]:
    """Let threads hand over the interpreter ten times sooner for the length of a block, for which workers stand still."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class ResidentWorkers:
    """Workers that read ahead from an increment into the next one, and wait before they learn from it until it is opened.

    Args:
        prepared: the training.
        first: the increment that they begin with.
        failed: called where one fails: increments are closed, so that no thread waits for more.

    Attributes:
        pace: holds them between two steps.
    """

    def __init__(self, prepared: Prepared, first: Increment, failed: Callable[[], None]) -> None:
        self._prepared, self._first, self._told_failed = prepared, first, failed
        self._failed = False
        self._arrived: defaultdict[int, list[float]] = defaultdict(list)
        self._coming = threading.Condition()
        self._futures: list[Future[None]] = []
        self.pace = Pace(prepared.places.workers, None, first.monitor.held_up)
        self._clocks = [first.monitor.clocks() for _ in range(prepared.places.workers)]

    @property
    def clocks(self) -> Sequence[Clocks]:
        """Where their time went since they began."""
        return self._clocks

    def start(self, pool: ThreadPoolExecutor, client: LocalClient) -> None:
        """Let them work."""
        self._client = client
        share_work(cores() - len(self._clocks) + 1)
        self._futures = [pool.submit(roomy(self._work), number) for number in range(len(self._clocks))]

    def check(self) -> None:
        """Raise the error of a failed worker."""
        for future in self._futures:
            if future.done():
                future.result()

    @property
    def done(self) -> bool:
        """Whether all have ended."""
        return all(future.done() for future in self._futures)

    def arrived(self, increment: Increment, seconds: float) -> float | None:
        """Return when the last worker finished all before an increment, on the monotonic clock; None where one has not within
        so many seconds."""
        times = self._arrived[increment.epoch]
        with self._coming:
            self._coming.wait_for(lambda: len(times) == len(self._clocks), seconds)
            return max(times) if len(times) == len(self._clocks) else None

    def fail(self) -> None:
        """Let them end as soon as they can."""
        self._failed = True
        self.pace.stop()
        self._told_failed()

    def wait(self) -> None:
        """Wait until they have ended, well or not."""
        wait(self._futures)

    def _work(self, number: int) -> None:
        """Run worker `number`."""
        current, clocks = self._first, self._clocks[number]

        def learned(batch: Batch, predictions: NDArray[np.float32]) -> None:
            current.collectors[number].learned(batch, predictions)
            self.pace.done(number)

        def ended(end: End) -> None:
            current.collectors[number].finish()
            current.dealer.finish(number, end.turn, end.batches)

        def items(ahead: Iterable[Item]) -> Generator[Batch | End, None, None]:
            nonlocal current
            for item in ahead:
                if not isinstance(item, Increment):
                    yield item
                    continue
                current.collectors[number].finish()
                self.pace.leave(number)
                with self._coming:
                    self._arrived[item.epoch].append(time.monotonic())
                    self._coming.notify_all()
                if not item.awaited(lambda: self._failed):
                    return
                current = item

        worker = Worker(number, self._client, self._prepared.recipe, learned, ended, clocks.learning)
        read = functools.partial(self._read, number, clocks)
        depth, least = self._prepared.plan.settings.read_ahead, chunk_batches(self._prepared.batch_size)
        try:
            with Ahead[Item](read, depth, least) as ahead:
                try:
                    worker.learn(items(ahead), functools.partial(self.pace.step, number), False)
                except BaseException:
                    self.fail()  # the thread that reads ahead may wait for more
                    raise
        finally:
            self.pace.leave(number)

    def _read(self, number: int, clocks: Clocks) -> Generator[Item, None, None]:
        """Yield increments, and after each what a worker learns of it."""
        increment: Increment | None = self._first
        while increment is not None:
            yield increment
            yield from increment.source.batches(functools.partial(increment.dealer.next, number), clocks.reading)
            increment = increment.following
