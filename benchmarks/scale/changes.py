"""What changes of the design would give at 800 shards and 5,000 workers, before anybody builds one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks import Figure
from benchmarks.scale.constants import Constants
from benchmarks.scale.curves import KEYS, centre, parts_of
from benchmarks.scale.model import FLOAT_BYTES, PULL_BYTES, PUSH_BYTES, Simulation
from benchmarks.scale.setting import Setting, changed

WORKERS, SHARDS, EACH = 5000, 800, 8
HOST_WORKERS = 16
LOCAL_SECONDS = 40e-6
"""A message to the relay of one's own host, and its answer."""
JOINED_KEYS = 0.6
"""Distinct keys of joined pulls, over their sum."""
PACKED_SECONDS = 30e-6
"""Another push in one message: what its application takes beside its keys."""
QUEUED = 0.25
"""The fixed cost of a message that was queued with others and is answered in one call, over its own."""
NATIVE = {"message": 15e-6, "pull": 40e-6, "push": 60e-6}
SLICES = 1 << 16


class Relayed(Simulation):
    """A training in which one process a host speaks with the shards for its workers: pulls that wait are joined, pushes are
    packed, and neither is summed."""

    def __init__(self, setting: Setting, seed: int = 0) -> None:
        super().__init__(setting, seed)
        hosts = -(-setting.workers // HOST_WORKERS)
        self._relay = np.zeros(hosts)
        self._asked: list[list[tuple[str, int, float]]] = [[] for _ in range(hosts)]
        self.kinds |= {
            "pull": lambda number, time: self._ask("pull", number, time),
            "push": lambda number, time: self._ask("push", number, time),
            "relay": self._send,
        }

    def receiving(self) -> float:
        return LOCAL_SECONDS / 2

    def _ask(self, kind: str, number: int, time: float) -> None:
        host = number // HOST_WORKERS
        if not self._asked[host]:
            self.later(max(time + LOCAL_SECONDS / 2, float(self._relay[host])), "relay", host)
        self._asked[host].append((kind, number, time))

    def _send(self, host: int, time: float) -> None:
        """Send what waits: one wave of pulls and one of pushes."""
        asked, self._asked[host] = self._asked[host], []
        for kind in ("push", "pull"):
            if own := [(number, begun) for one, number, begun in asked if one == kind]:
                time, ready = self._wave(kind, host * HOST_WORKERS, time, len(own))
                for number, begun in own:
                    self.waved(kind, begun, ready)
                    self.resume(number, (begun + LOCAL_SECONDS / 2, ready + LOCAL_SECONDS / 2))
        self._relay[host] = time

    def waved(self, kind: str, begun: float, ready: float) -> None:
        if kind == "pull":
            self._waves.append((begun, ready))

    def _wave(self, kind: str, number: int, time: float, count: int) -> tuple[float, float]:
        """Return when the relay has sent one for `count` workers, with the work of its answers, and when these are all in."""
        rates, dim, pull = self.given.rates, self.given.load.dim, kind == "pull"
        times = count if not pull or count == 1 else count * JOINED_KEYS
        each = PULL_BYTES if pull else PUSH_BYTES + dim * FLOAT_BYTES
        arrivals, free = self.sent(number, time, each * times)
        fixed = rates.pull if pull else rates.push + (count - 1) * PACKED_SECONDS
        key = (rates.pulled(dim) if pull else rates.pushed(dim)) * times
        done = self.serve(arrivals, fixed, key, pull)
        ready = self.answered(number, time, done, dim * FLOAT_BYTES * times if pull else 0)
        return free + super().receiving() + rates.worker_keys(self.all_keys, dim) / 2 * count, ready


def without_slices(shards: int, slow: int, speed: float) -> tuple[float, ...]:
    """Return parts of the keys in which a slow shard has as much less as it is slower."""
    parts = np.ones(shards)
    parts[slow] = speed
    return tuple(parts / parts.sum())


def settings(given: Setting) -> Iterator[tuple[str, Setting, bool]]:
    """Yield changes in words, with what is simulated, and whether by relays."""
    equal = changed(given, keys=parts_of(SHARDS, SLICES))
    quiet = changed(equal, beat=3.0, report=2.0)
    native = changed(quiet, rates=quiet.rates._replace(**NATIVE))
    slow = changed(quiet, speeds=((SHARDS // 2, 0.25),))
    yield "as it is", given, False
    yield f"{SLICES:,} slices", equal, False
    yield "and heartbeats every 3 s, reports every 2 s", quiet, False
    yield "and queued messages in one call", changed(quiet, queued=QUEUED), False
    yield "and a native message loop", native, False
    yield f"and a relay for {HOST_WORKERS} workers", quiet, True
    yield "and a relay, queued messages in one call", changed(quiet, queued=QUEUED), True
    yield "and a relay, a native message loop", native, True
    yield "one shard at a quarter of its speed", slow, False
    moved = changed(slow, keys=without_slices(SHARDS, SHARDS // 2, 0.25))
    yield "one shard at a quarter of its speed, with slices moved off it", moved, False
    yield "one shard at a quarter of its speed, with a relay", slow, True
    yield "one shard at a quarter of its speed, begun again on another host", quiet, False


def figures(constants: Constants | None, quick: bool) -> Iterator[Figure]:
    """Yield rows a second of each change."""
    for batch in KEYS:
        given = centre(WORKERS, SHARDS, batch, constants, EACH)
        for words, setting, relayed in settings(given):
            if quick:
                setting = changed(setting, workers=32, batches=32 * EACH)
            found = Relayed(setting).run() if relayed else Simulation(setting).run()
            yield Figure(f"{words}: batch {batch:,}", found.rate / 1e6, "M rows/s")
