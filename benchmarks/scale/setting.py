"""What is simulated: a training and its machines; and what comes of it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xpsql.platform.training.planning.forecast import RATES, Load, UnitCosts

Floats = NDArray[np.float64]
POOL = 1 << 16
"""So many draws are made of a distribution, and used again from a place drawn at random."""


class Latency(NamedTuple):
    """Seconds that a message is on its way: the median, and what one of a hundred exceeds. Alike: it is always the median."""

    median: float = 0.0
    p99: float = 0.0

    def drawn(self, generator: np.random.Generator) -> Floats:
        if self.p99 <= self.median:
            return np.full(POOL, self.median)
        return self.median * np.exp(generator.normal(0, math.log(self.p99 / self.median) / 2.326, POOL))


ALIKE = Latency()


@dataclass(frozen=True)
class Setting:
    """A training and the machines that it runs on.

    Attributes:
        batches: of all workers; turn: batches of a split.
        slack: with ssp; ahead: pulls under way while a worker computes.
        late: an answer comes no sooner than so many seconds after its request.
        network: bytes a second of each host, in and out; 0: as fast as you like.
        beside: a worker's encoder has a core of its own; else it works while the worker waits.
        split: a shard's interpreter and its native code have a core each.
        spread: factors of service times, drawn alike; (1,): none.
        sigma: of the logarithm of the machines' speeds; stragglers: the share of machines at a quarter of their speed.
        speeds: of shards by number, where they are not 1.
        keys: the shards' parts of the keys; None: equal ones.
        queued: what a message's fixed cost shrinks to where another one was before it.
        dense: bytes of dense parameters.
        every: seconds between checkpoints, 0 for none; standing: how long each stops shards; writing: how long it takes part of
            their core after that, `share` of it.
        failures: of a task a day; restart: seconds until a lost shard's training is where it was; redone: of its work, at most.
        heartbeat, take: the driver's seconds for a heartbeat, and for another call.
        beat: seconds between a task's heartbeats; report: between a worker's reports, for whose answers it waits.
    """

    workers: int
    shards: int
    batch: int
    load: Load
    batches: int
    rates: UnitCosts = RATES
    sync: str = "asp"
    slack: int = 4
    ahead: int = 0
    turn: int = 8
    latency: Latency = ALIKE
    late: float = 0.0
    network: float = 0.0
    encode: float = 0.5
    beside: bool = False
    split: bool = False
    spread: tuple[float, ...] = (1.0,)
    sigma: float = 0.0
    stragglers: float = 0.0
    speeds: tuple[tuple[int, float], ...] = ()
    keys: tuple[float, ...] | None = None
    queued: float = 1.0
    dense: float = 0.0
    every: float = 0.0
    standing: float = 0.05
    writing: float = 0.0
    share: float = 0.3
    failures: float = 0.0
    restart: float = 60.0
    redone: float = 60.0
    heartbeat: float = 60e-6
    take: float = 140e-6
    beat: float = 1.0
    report: float = 0.5
    read_ahead: int = 8

    @property
    def together(self) -> bool:
        return self.sync in ("bsp", "hybrid")


class Outcome(NamedTuple):
    """What a simulation came to.

    Attributes:
        rows: learned; more than there are where work was lost.
        seconds: until the last batch was acknowledged.
        rate: rows a second without the first tenth of the batches and the last.
        ends: when each batch was acknowledged, in order.
        waves: of each wave of pulls, when it was sent and its last answer came: float64[n, 2].
        last: seconds by which a wave's last shard begins later than it could.
        busy: the shards' part of the time at work, the busiest one's.
        coordinator: the driver's part of the time at work.
        intervals: when cores were at work: float64[n, 2].
    """

    rows: int
    seconds: float
    rate: float
    ends: Floats
    waves: Floats
    last: float
    busy: float
    coordinator: float
    intervals: Floats


def rate_of(ends: Floats, batch: int) -> float:
    """Return rows a second without the first tenth of the batches and the last."""
    first, last = len(ends) // 10, len(ends) - 1 - len(ends) // 10
    return float((last - first) * batch / (ends[last] - ends[first])) if ends[last] > ends[first] else math.inf


def fifo(free: Floats, arrivals: Floats, cost: Floats | float) -> Floats:
    """Return when servers, each with one customer more, are done with it."""
    done: Floats = np.maximum(free, arrivals) + cost
    return done


def drained(arrivals: Floats, cost: float) -> float:
    """Return when one server is done with all of its customers."""
    return float(np.max(np.sort(arrivals) + cost * np.arange(len(arrivals), 0, -1)))


def changed(setting: Setting, **fields: object) -> Setting:
    """Return a setting with other fields."""
    return dataclasses.replace(setting, **fields)  # type: ignore[arg-type]
