"""A second, plain simulation of a few workers and shards: an event for each message, and a queue for each shard."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable

from benchmarks.scale.setting import Setting


def ends(given: Setting) -> list[float]:
    """Return when each batch of a training with `asp` was acknowledged, in order; services are the means, machines alike, each
    worker has a core and its own batches."""
    rates, keys, dim = given.rates, given.load.keys_in(given.batch), given.load.dim
    count, heap = itertools.count(), list[tuple[float, int, Callable[[float], None]]]()
    queues = [deque[tuple[float, Callable[[float], None]]]() for _ in range(given.shards)]
    serving = [False] * given.shards
    found: list[float] = []

    def at(time: float, what: Callable[[float], None]) -> None:
        heapq.heappush(heap, (time, next(count), what))

    def arrive(shard: int, service: float, answer: Callable[[float], None], time: float) -> None:
        queues[shard].append((service, answer))
        if not serving[shard]:
            begin(shard, time)

    def begin(shard: int, time: float) -> None:
        serving[shard] = bool(queues[shard])
        if queues[shard]:
            service, answer = queues[shard].popleft()
            at(time + service, lambda now: (answer(now + given.latency.median), begin(shard, now))[0])

    class Learner:
        def __init__(self, batches: int) -> None:
            self.left, self.answers, self.acks = batches, list[float](), list[float]()
            self.done = 0.0

        def wave(self, time: float, service: float, into: list[float]) -> float:
            for shard in range(given.shards):
                sent = time + (shard + 1) * rates.message / 2 + given.latency.median
                at(sent, lambda now, shard=shard: arrive(shard, service, lambda when: self.hear(into, when), now))  # type: ignore[misc]
            return time + given.shards * rates.message / 2

        def begin(self, time: float) -> None:
            self.left -= 1
            self.answers = []
            self.free = self.wave(time, rates.pull + keys / given.shards * rates.pulled(dim), self.answers)

        def hear(self, into: list[float], when: float) -> None:
            into.append(when)
            if len(into) < given.shards:
                return
            free = 0.0
            for arrival in sorted(into):
                free = max(free, arrival) + rates.message / 2
            if into is self.acks:
                found.append(free)
                self.acked = free
            else:
                self.ready = free
                at(free, self.answered)

        def answered(self, time: float) -> None:
            receiving = given.shards * rates.message / 2
            time = max(self.ready, self.free + receiving) + rates.worker_keys(keys, dim) / 2
            if self.acks:
                time = max(self.acked, time + receiving)
            at(time + given.batch * given.load.row_seconds, self.learned)

        def learned(self, time: float) -> None:
            self.acks = []
            sent = self.wave(time, rates.push + keys / given.shards * rates.pushed(dim), self.acks)
            if self.left:
                at(sent + rates.worker_keys(keys, dim) / 2, self.begin)

    each = given.batches // given.workers
    for _ in range(given.workers):
        at(0.0, Learner(each).begin)
    while heap:
        time, _, what = heapq.heappop(heap)
        what(time)
    return sorted(found)
