"""Forecasts of a training on many tasks, by formulas: what a batch costs, how fast workers and shards go, and which to take.

`benchmarks/scale` calibrates the constants, and simulates what the formulas leave out (docs/how_far.md).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

from ....warehouse.checksums import NUM_SLICES
from ..parallelism import LEAST_ROWS_AHEAD, Places


class UnitCosts(NamedTuple):
    """What messages, keys and floats cost, in CPU seconds, on one core of each side (docs/scaling.md, One batch).

    Attributes:
        message: a worker's, to encode, send, wait, receive and decode.
        key, float_: a worker's, of a pull and its push; a float beyond the first of a key.
        pull, push: a shard's message.
        pulled_key, pushed_key, pulled_float, pushed_float: a shard's.
    """

    message: float = 55e-6
    key: float = 8e-9
    float_: float = 1e-9
    pull: float = 117e-6
    push: float = 156e-6
    pulled_key: float = 28e-9
    pushed_key: float = 44e-9
    pulled_float: float = 1.5e-9
    pushed_float: float = 7.5e-9

    def worker_keys(self, keys: float, dim: int) -> float:
        """Return a worker's seconds for the keys of a pull and its push."""
        return keys * (self.key + (dim - 1) * self.float_)

    def pulled(self, dim: int) -> float:
        """Return a shard's seconds for a pulled key."""
        return self.pulled_key + (dim - 1) * self.pulled_float

    def pushed(self, dim: int) -> float:
        """Return a shard's seconds for a pushed key."""
        return self.pushed_key + (dim - 1) * self.pushed_float


RATES = UnitCosts()
"""Measured with `xftrl` and `adagrad` on one machine (docs/scaling.md)."""


class Load(NamedTuple):
    """The work of a training.

    Attributes:
        rows: of one pass.
        passes: how often they are read.
        row_seconds: reading, encoding and the step, a row on one core; without pulls and pushes.
        keys: distinct keys of a batch of `keys_of` rows.
        keys_of: see keys.
        power: distinct keys grow like this power of the batch.
        dim: floats of a key in all tables.
        size: bytes of all rows in memory.
    """

    rows: int
    passes: int
    row_seconds: float
    keys: float
    keys_of: int
    power: float
    dim: int
    size: int

    def keys_in(self, batch: int) -> float:
        """Return the distinct keys of a batch."""
        return float(self.keys * (batch / self.keys_of) ** self.power)


class Where(NamedTuple):
    """The machines of a training.

    Attributes:
        rates: of messages and keys.
        latency: seconds of a round trip.
        start: seconds until tasks learn.
        failures: of a task a day; restart: what each costs all of them: found, started again, loaded, and learned again.
        memory: bytes that a shard may hold.
        shard_cores: of each shard.
    """

    rates: UnitCosts
    latency: float
    start: float
    failures: float
    restart: float
    memory: float
    shard_cores: int


CLUSTER = Where(RATES, latency=200e-6, start=15.0, failures=0.005, restart=90.0, memory=64e9, shard_cores=1)
"""A core for each task, on machines of one data centre."""
CALLED = RATES._replace(message=0.0, pull=50e-6, push=60e-6)
HERE = Where(CALLED, latency=0.0, start=0.12, failures=0.0, restart=0.0, memory=math.inf, shard_cores=0)
"""Threads of one process, which call the shard."""
KNEE = 6.0
"""How sharply a training turns from as much as its workers do to as much as its shards serve, as the simulation has it."""
READING = 0.5
"""The part of a worker's own seconds that it has batches read and encoded in, while it waits."""
STANDING_SECONDS, CHECKPOINT_SECONDS = 0.05, 60.0
"""A checkpoint's standstill, and the time between two."""
SPEEDS = 0.1
"""The deviation of machines' speeds, of which steps together take the slowest."""


def imbalance(shards: int) -> float:
    """Return the largest shard's part of the slices, over the mean."""
    return -(-NUM_SLICES // shards) * shards / NUM_SLICES


def worker_seconds(load: Load, batch: int, shards: int, rates: UnitCosts) -> float:
    """Return a worker's CPU seconds for a batch."""
    return batch * load.row_seconds + 2 * shards * rates.message + rates.worker_keys(load.keys_in(batch), load.dim)


def shard_seconds(load: Load, batch: int, shards: int, rates: UnitCosts) -> float:
    """Return the CPU seconds of the busiest shard for a batch."""
    keys = load.keys_in(batch) / shards * imbalance(shards)
    return rates.pull + rates.push + keys * (rates.pulled(load.dim) + rates.pushed(load.dim))


def rows_a_second(load: Load, batch: int, places: Places, where: Where = CLUSTER, together: bool = False) -> float:
    """Return how fast the workers and shards of a training go, each on a core of its own.

    Args:
        together: workers make their steps together, so that each step takes the slowest of them.
    """
    served = shard_seconds(load, batch, places.shards, where.rates)
    waiting = max(0.0, where.latency + served - READING * batch * load.row_seconds)
    cycle = worker_seconds(load, batch, places.shards, where.rates) + waiting
    slowest = 1 + SPEEDS * math.sqrt(2 * math.log(places.workers)) if together else 1.0
    workers, shards = places.workers * batch / cycle / slowest, batch / served
    return float((workers**-KNEE + shards**-KNEE) ** (-1 / KNEE))


class TrainingWay(NamedTuple):
    """A way to run a training, and what it takes.

    Attributes:
        batch: rows of a batch.
        shard_bytes: of the rows that a shard holds.
        under_way: the part of the log that workers learn from at once; accuracy is lost above one row in 61.
        cores: that it keeps.
    """

    places: Places
    batch: int
    seconds: float
    shard_bytes: float
    under_way: float
    cores: int

    @property
    def core_hours(self) -> float:
        """Core hours in all."""
        return self.cores * self.seconds / 3600


def choice(load: Load, batch: int, places: Places, where: Where = CLUSTER, together: bool = False) -> TrainingWay:
    """Return what a training takes on some places, with checkpoints and failures."""
    learning = load.rows * load.passes / rows_a_second(load, batch, places, where, together)
    standing = learning / CHECKPOINT_SECONDS * STANDING_SECONDS
    failures = learning / 86_400 * where.failures * sum(places) * where.restart
    under_way = places.workers * batch / load.rows
    seconds, cores = where.start + learning + standing + failures, places.workers + places.shards * where.shard_cores
    return TrainingWay(places, batch, seconds, load.size / places.shards, under_way, cores)


def choices(
    load: Load,
    workers: Iterable[int],
    shards: Iterable[int],
    batches: Iterable[int],
    where: Where = CLUSTER,
    together: bool = False,
) -> list[TrainingWay]:
    """Return the ways to run a training that shards have the memory for."""
    grid = itertools.product(workers, shards, batches)
    return [choice(load, b, Places(s, w), where, together) for w, s, b in grid if load.size <= s * where.memory]


def accurate(found: TrainingWay) -> bool:
    """Return whether a way loses no accuracy by what is under way: more than one worker has at most one row in 61."""
    return found.places.workers == 1 or found.under_way * LEAST_ROWS_AHEAD <= 1


def best(found: Iterable[TrainingWay], seconds: float) -> TrainingWay | None:
    """Return the way that takes the fewest core hours of those that are in time; of equal ones the one with fewer tasks."""
    in_time = (one for one in found if one.seconds <= seconds)
    return min(in_time, key=lambda one: (one.core_hours, one.cores), default=None)


def fastest(found: Iterable[TrainingWay]) -> TrainingWay | None:
    """Return the fastest way; None where there is none."""
    return min(found, key=lambda one: one.seconds, default=None)
