"""The events of a training on many tasks, with what they cost; not what they compute.

A wave is the messages of one worker to all shards: pulls, or pushes. It is sent as one event, in order of sending, and its
answers are events of their own, as a worker may have several waves under way. The shards' times are vectors: each is a server
that takes what comes first (Lindley, "The theory of queues with a single server", 1952).
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Generator

import numpy as np

from benchmarks.scale.encoder import Encoder
from benchmarks.scale.setting import POOL, Floats, Outcome, Setting, drained, fifo, rate_of

Actor = Generator[tuple[float, str], tuple[float, ...], None]
PULL_BYTES, PUSH_BYTES, FLOAT_BYTES, FRAME_BYTES = 8, 22, 4, 300
MOST_BEATS = 0.99
HANDOVER = 1.25
"""A worker's last split is taken over from one that would need so many times as long (docs/scaling.md, A slow worker)."""


class Simulation:
    """One training; `run` runs it.

    Args:
        record: keep when cores were at work.
    """

    def __init__(self, setting: Setting, seed: int = 0, record: bool = False) -> None:
        self.given, shards = setting, setting.shards
        self._random = np.random.default_rng(seed)
        self._latency, self._spread = setting.latency.drawn(self._random), self._random.choice(setting.spread, POOL)
        self._speed, self._worker_speed = self._speeds(shards), self._speeds(setting.workers)
        for number, speed in setting.speeds:
            self._speed[number] = speed
        self.all_keys = setting.load.keys_in(setting.batch)
        self.keys = self.all_keys * (np.full(shards, 1 / shards) if setting.keys is None else np.array(setting.keys))
        self._free, self._native, self._in, self._out, self._work = (np.zeros(shards) for _ in range(5))
        self._barrier, self._open = np.zeros(shards), np.zeros(shards)
        self._pushed: dict[int, tuple[float, float]] = {}
        self._steps: dict[int, int] = dict.fromkeys(range(setting.workers), 0)
        self._gated: dict[int, float] = {}
        self._pool, self._left = setting.batches, np.zeros(setting.workers, int)
        self._cycle, self._delay = np.zeros(setting.workers), [0.0] * setting.workers
        self._coordinator, self._slow_until, self._calls = 0.0, 0.0, 0
        self._beats = min(setting.heartbeat * (setting.workers + shards) / setting.beat, MOST_BEATS)
        self._heap: list[tuple[float, int, str, int]] = []
        self._count = itertools.count()
        self._ends, self._waves, self._waited = list[float](), list[tuple[float, float]](), list[float]()
        self._record, self._intervals = record, list[Floats]()
        self._actors = [self._worker(number) for number in range(setting.workers)]
        self.kinds: dict[str, Callable[[int, float], tuple[float, ...] | None]] = {
            "pull": self.pull, "push": self.push, "take": self._take, "report": self._report,
            "gate": self._gate, "leave": self._leave, "checkpoint": self._checkpoint, "failure": self._failure,
        }  # fmt: skip

    def run(self) -> Outcome:
        """Run it to its end."""
        given = self.given
        for number, actor in enumerate(self._actors):
            self.later(*next(actor), number)
        if given.every:
            self.later(given.every, "checkpoint", 0)
        if given.failures:
            self.later(self._next_failure(), "failure", 0)
        while self._heap and self._steps:
            time, _, kind, number = heapq.heappop(self._heap)
            if (answer := self.kinds[kind](number, time)) is not None:
                self.resume(number, answer)
        ends = np.sort(np.array(self._ends))
        busy, waited = float(self._work.max() / ends[-1]), float(np.mean(self._waited))
        found = np.concatenate(self._intervals) if self._intervals else np.zeros((0, 2))
        rows, seconds, rate = len(ends) * given.batch, float(ends[-1]), rate_of(ends, given.batch)
        driver = self._beats + self._calls * given.take / seconds
        return Outcome(rows, seconds, rate, ends, np.array(self._waves), waited, busy, driver, found)

    def later(self, time: float, kind: str, number: int) -> None:
        """Let something happen at a time."""
        heapq.heappush(self._heap, (time, next(self._count), kind, number))

    def resume(self, number: int, answer: tuple[float, ...]) -> None:
        """Let a worker go on with an answer."""
        delay, self._delay[number] = self._delay[number], 0.0
        try:
            self.later(*self._actors[number].send((answer[0] + delay, *answer[1:])), number)
        except StopIteration:
            return

    def _speeds(self, count: int) -> Floats:
        given = self.given
        speeds = np.exp(self._random.normal(0, given.sigma, count)) if given.sigma else np.ones(count)
        return np.where(self._random.random(count) < given.stragglers, speeds / 4, speeds)

    def _draws(self, pool: Floats, count: int) -> Floats:
        """Return some of a pool's draws, from a place drawn at random."""
        first = int(self._random.integers(POOL))
        return pool[first : first + count] if first + count <= POOL else np.take(pool, range(first, first + count), mode="wrap")

    def _worker(self, number: int) -> Actor:
        """Do what a worker does; each yield asks for something at a time, and gets the time when the worker goes on."""
        given, load, speed = self.given, self.given.load, self._worker_speed[number]
        row, step_by_step = given.batch * load.row_seconds / speed, given.sync == "ssp"
        step, receiving = row * (1 - given.encode), self.receiving() / speed
        keys = given.rates.worker_keys(self.all_keys, load.dim) / 2 / speed
        input_ = Encoder(row * given.encode, given.beside, given.read_ahead, self.note)
        answers, acks, waiting = deque[float](), deque[float](), 0 if given.together else given.ahead
        time, begun, told, more = 0.0, 0.0, 0.0, True

        def received(ready: float) -> float:
            self.note(time, time + receiving)
            return max(input_.waited(time, ready), time + receiving)

        while more or answers:
            while more and len(answers) <= given.ahead and (not answers or input_.ready(time)):
                if step_by_step and acks:
                    time = received(acks.popleft())
                if not self._left[number]:
                    time, dealt = yield time, "take"
                    if more := dealt > 0:
                        self._left[number] = int(dealt)
                    continue
                self._left[number] -= 1
                time = input_.taken(time)
                if step_by_step:
                    time = input_.waited(time, (yield time, "gate")[0])
                sent, ready = yield time, "pull"
                self.note(time, sent)
                time = sent
                answers.append(ready)
            if not answers:
                break
            time = received(answers.popleft()) + keys
            while len(acks) > waiting:
                time = received(acks.popleft())
            done = time + step * float(self._draws(self._spread, 1)[0])
            self.note(time - keys, done)
            sent, acked = yield done, "push"
            self.note(done, sent + keys)
            time = sent + keys
            acks.append(acked)
            self._ends.append(acked)
            self._cycle[number], begun = time - begun, time
            if time >= told + given.report:
                time = told = input_.waited(time, (yield time, "report")[0])
        yield max(time, *acks, 0.0), "leave"

    def receiving(self) -> float:
        """Return a worker's seconds to receive the answers of a wave."""
        return self.given.shards * self.given.rates.message / 2

    def note(self, start: float, end: float) -> None:
        """Note that a core was at work."""
        if self._record and end > start:
            self._intervals.append(np.array([[start, end]]))

    def _report(self, number: int, time: float) -> tuple[float, ...]:
        """Report to the driver, which answers one call after the other, and the heartbeats of all tasks beside them."""
        given = self.given
        self._coordinator = max(self._coordinator, time + given.latency.median) + given.take / (1 - self._beats)
        self._calls += 1
        return (self._coordinator + given.latency.median,)

    def _take(self, number: int, time: float) -> tuple[float, ...]:
        """Deal a split, or a slower worker's last one."""
        given, (time,) = self.given, self._report(number, time)
        taken = min(given.turn, self._pool)
        self._pool -= taken
        if not taken and not given.together:
            slowest = int(np.argmax(self._left * self._cycle))
            if self._cycle[slowest] > HANDOVER * self._cycle[number]:
                taken, self._left[slowest] = int(self._left[slowest]), 0
        return time, float(taken)

    def sent(self, number: int, time: float, each: float) -> tuple[Floats, float]:
        """Return when the messages of a wave are at the shards, and when the worker has sent them."""
        given, shards = self.given, self.given.shards
        cost, wire = given.rates.message / 2 / self._worker_speed[number], self.wire(each)
        leaving = time + max(cost, wire) * np.arange(1, shards + 1)
        if given.network:
            self._in = leaving = fifo(self._in, leaving, wire)
        return leaving + self._draws(self._latency, shards), time + shards * cost

    def wire(self, each: float) -> float:
        """Return how long a message is on a host's wire, with so many bytes a key."""
        return (self.all_keys / self.given.shards * each + FRAME_BYTES) / self.given.network if self.given.network else 0.0

    def serve(self, arrivals: Floats, message: float, key: float, beside: bool) -> Floats:
        """Return when shards are done with a message each.

        Args:
            beside: its native part goes on beside that of other messages, as a pull's does.
        """
        given = self.given
        drawn = self._draws(self._spread, given.shards) / self._speed
        if given.writing:
            drawn = np.where(arrivals < self._slow_until, drawn / (1 - given.share), drawn)
        start = np.maximum(arrivals, self._free)
        self._waited.append(float((start - arrivals).max()))
        fixed = message * drawn * (np.where(start > arrivals, given.queued, 1.0) if given.queued != 1 else 1.0)
        moved = key * self.keys * drawn
        self._work += fixed + moved
        self._free = done = start + fixed + moved
        if given.split:
            self._free = start + fixed
            done = self._free + moved if beside else fifo(self._native, self._free, moved)
            self._native = self._native if beside else done
        if self._record:
            self._intervals += [np.stack([start, start + fixed], 1), np.stack([done - moved, done], 1)]
        return done

    def answered(self, number: int, time: float, done: Floats, each: float) -> float:
        """Return when a worker has all answers."""
        given, wire = self.given, self.wire(each)
        if given.network:
            self._out = done = fifo(self._out, done, wire)
        arrivals = done + self._draws(self._latency, given.shards)
        cost = given.rates.message / 2 / self._worker_speed[number]
        return max(time + given.late, drained(arrivals, max(cost, wire)))

    def pull(self, number: int, time: float) -> tuple[float, ...] | None:
        """Pull from all shards."""
        given, rates = self.given, self.given.rates
        arrivals, free = self.sent(number, time, PULL_BYTES)
        arrivals = np.maximum(arrivals, self._open) if given.sync == "bsp" else arrivals
        done = self.serve(arrivals, rates.pull, rates.pulled(given.load.dim), True)
        dense = 0.0 if given.sync == "hybrid" else given.dense / max(self.all_keys, 1)
        ready = self.answered(number, time, done, given.load.dim * FLOAT_BYTES + dense)
        self._waves.append((time, ready))
        return free, ready

    def push(self, number: int, time: float) -> tuple[float, ...] | None:
        """Push to all shards; where workers step together, the answer waits for the last one's."""
        given, key = self.given, self.given.rates.pushed(self.given.load.dim)
        dense = given.dense / max(self.all_keys, 1)
        arrivals, free = self.sent(number, time, PUSH_BYTES + given.load.dim * FLOAT_BYTES + dense)
        held = key if given.sync == "bsp" else 0.0  # applied when all have come
        done = self.serve(arrivals, given.rates.push, key - held, False)
        if not given.together:
            return free, self.answered(number, time, done, 0)
        self._barrier = np.maximum(self._barrier, done)
        self._pushed[number] = time, free
        self._step_over()
        return None

    def _step_over(self) -> None:
        """End the step of workers that step together, where all of them have pushed."""
        if not self._pushed or len(self._pushed) < len(self._steps):
            return
        given, pushed, self._pushed = self.given, self._pushed, {}
        key = given.rates.pushed(given.load.dim) if given.sync == "bsp" else 0.0
        cost = len(pushed) * key * self.keys / self._speed
        self._open = np.maximum(self._barrier, self._free) + cost
        self._free, self._work = self._open if key else self._free, self._work + cost
        if self._record and key:
            self._intervals.append(np.stack([self._open - cost, self._open], 1))
        dense = given.dense / max(self.all_keys, 1) if given.sync == "hybrid" else 0.0
        for number, (time, free) in pushed.items():
            self.resume(number, (free, self.answered(number, time, self._open, dense)))

    def _gate(self, number: int, time: float) -> tuple[float, ...] | None:
        """Let a worker begin a step that is not too far ahead of the slowest (ssp)."""
        self._steps[number] += 1
        self._gated[number] = time
        self._let(time)
        return None

    def _let(self, time: float) -> None:
        done = max(min(self._steps.values(), default=1) - 1, 0)
        for number in [one for one in self._gated if self._steps[one] - 1 - done <= self.given.slack]:
            self.resume(number, (max(time, self._gated.pop(number)),))

    def _leave(self, number: int, time: float) -> None:
        """Let a worker go that has no more batches."""
        del self._steps[number]
        self._let(time)
        self._step_over()

    def _checkpoint(self, number: int, time: float) -> None:
        self._free = np.maximum(self._free, time) + self.given.standing
        self._slow_until = time + self.given.standing + self.given.writing
        self.later(time + self.given.every, "checkpoint", 0)

    def _next_failure(self) -> float:
        tasks = self.given.workers + self.given.shards
        return float(self._random.exponential(86_400 / (self.given.failures * tasks)))

    def _failure(self, number: int, time: float) -> None:
        """Lose a task: a worker begins its split again; a shard's loss stops all, who lose what followed a checkpoint."""
        given = self.given
        lost = int(self._random.integers(given.workers + given.shards))
        if lost < given.workers:
            self._delay[lost] += given.restart
            self._left[lost] += int(self._random.integers(given.turn)) if lost in self._steps else 0
        else:
            self._free = np.maximum(self._free, time) + given.restart
            since = time - self._random.uniform(0, given.redone)
            self._pool += sum(end > since for end in self._ends)
        self.later(time + self._next_failure(), "failure", 0)


def simulated(setting: Setting, seed: int = 0) -> Outcome:
    """Return what a training comes to."""
    return Simulation(setting, seed).run()
