"""A world of one seed: processes whose threads run one at a time, and a clock that moves only while all of them wait.

A fiber is a greenlet, a stack of its own in the one real thread; it hands on to another one wherever the product waits, locks,
sends or touches the disk. So the product's own blocking code runs as it is, and which one goes on is drawn from the seed alone.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import zlib
from collections.abc import Callable

from greenlet import getcurrent, greenlet

MOST_STEP_SECONDS = 0.002
SWITCHES = 0.2  # of the steps at which another fiber could go on


class Killed(BaseException):
    """Ends a fiber whose process is dead; nothing that the product does on its way out reaches the world."""


class StuckError(Exception):
    """Nobody can ever go on, or nobody comes to an end."""


class Process:
    """A process of the world.

    Attributes:
        role: "driver", "shard" or "worker".
        stalled: until when none of its fibers goes on, as after SIGSTOP.
        unreachable: until when no message leaves or reaches it.
        deaths: called when it dies, once.
    """

    def __init__(self, name: str, role: str) -> None:
        self.name, self.role = name, role
        self.alive = True
        self.stalled = self.unreachable = 0.0
        self.deaths: list[Callable[[], None]] = []
        self.descriptors: set[int] = set()

    def __repr__(self) -> str:
        return self.name


class Fiber:
    """A thread of a process."""

    def __init__(self, process: Process, target: Callable[[], object]) -> None:
        self.process = process
        self.target = target
        self.ready: Callable[[], bool] | None = None
        self.deadline: float | None = None
        self.done = False
        self.error: BaseException | None = None
        self.stack = getcurrent()  # its own from when it is spawned


class World:
    """Everything that is simulated hangs on one.

    Args:
        seed: of all that is drawn.

    Attributes:
        now: seconds of the monotonic clock.
        skew: what the wall clock is off by.
        current: the fiber that runs; None: whoever runs the world.
        on_step: called with each step, its kind and process; faults come from there.
        lines: what happened, for whoever looks into a failure.
        traced: a checksum of all steps: the same for the same seed.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1000.0
        self.skew = 0.0
        self.current: Fiber | None = None
        self.steps = self.traced = 0
        self.lines: list[str] = []
        self.close = os.close  # the machine's own
        self.on_step: Callable[[str, Process], None] = lambda kind, process: None
        self._fibers: list[Fiber] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._over: Callable[[], bool] = lambda: True
        self._until = 0.0
        self._stuck: str | None = None
        self._main = getcurrent()

    @property
    def fibers(self) -> tuple[Fiber, ...]:
        """Those that have not ended."""
        return tuple(self._fibers)

    @property
    def inside(self) -> bool:
        """Whether a fiber asks."""
        return self.current is not None

    def say(self, line: str) -> None:
        """Note what happens."""
        self.lines.append(f"{self.now:10.3f} {line}")

    def spawn(self, process: Process, target: Callable[[], object]) -> Fiber:
        """Start a fiber of a process."""
        fiber = Fiber(process, target)
        fiber.stack = greenlet(lambda: self._live(fiber), self._main)
        self._fibers.append(fiber)
        return fiber

    def after(self, seconds: float, happening: Callable[[], None]) -> None:
        """Let something happen later; it must not wait."""
        heapq.heappush(self._timers, (self.now + seconds, next(self._numbers), happening))

    def run(self, over: Callable[[], bool], seconds: float) -> None:
        """Let the world go on until something is so.

        Raises:
            StuckError: it is not after so many seconds of the world, or can never be.
        """
        self._over, self._until, self._stuck, self._main = over, self.now + seconds, None, getcurrent()
        while (following := self._next()) is not None:
            self._hand_on(following)  # comes back where nobody can go on, and where a fiber has ended
        if self._stuck is not None:
            raise StuckError(self._stuck)

    def kill(self, process: Process) -> None:
        """End a process as `kill -9` does; its own fibers find out when it is their turn."""
        if not process.alive:
            return
        process.alive = False
        self.say(f"{process} dies")
        for descriptor in process.descriptors:
            self.close(descriptor)
        process.descriptors.clear()
        for died in process.deaths:
            died()

    def step(self, kind: str) -> None:
        """Come to a point at which others may go on, and a fault may strike."""
        fiber = self._mine()
        self.steps += 1
        self.now += self.random.random() * MOST_STEP_SECONDS
        self.traced = zlib.crc32(f"{self.now.hex()} {kind} {fiber.process.name}".encode(), self.traced)
        self.on_step(kind, fiber.process)
        if not fiber.process.alive:
            raise Killed
        if self.random.random() < SWITCHES or fiber.process.stalled > self.now:
            self.wait(None, None)

    def wait(self, ready: Callable[[], bool] | None, seconds: float | None) -> bool:
        """Let others run until something is so, or the time is over; return whether it is."""
        fiber = self._mine()
        fiber.ready, fiber.deadline = ready, None if seconds is None else self.now + seconds
        following = self._next()
        if following is not fiber:
            self._hand_on(following)
        if not fiber.process.alive:
            raise Killed
        found = ready is None or ready()
        fiber.ready = fiber.deadline = None
        return found

    def _mine(self) -> Fiber:
        fiber = self.current
        assert fiber is not None
        assert fiber.stack is getcurrent(), "a thread of nobody"
        if not fiber.process.alive:
            raise Killed
        return fiber

    def _live(self, fiber: Fiber) -> None:
        try:
            if fiber.process.alive:
                fiber.target()
        except Killed:
            pass
        except BaseException as error:
            fiber.error = error
        fiber.done = True
        self._fibers.remove(fiber)
        self.current = None

    def _hand_on(self, following: Fiber | None) -> None:
        """Let another one run, or whoever runs the world, until it is this one's turn again."""
        self.current = following
        (self._main if following is None else following.stack).switch()

    def _next(self) -> Fiber | None:
        """Return who goes on; None: the world stands."""
        while True:
            self._strike()
            for fiber in self._fibers:  # the dead first: what they hold, they give back
                if not fiber.process.alive:
                    return fiber
            if self._over():
                return None
            now = self.now
            able = [  # in place, not in a function: a world does this most
                fiber
                for fiber in self._fibers
                if fiber.process.stalled <= now
                and ((ready := fiber.ready) is None or ready() or ((end := fiber.deadline) is not None and end <= now))
            ]
            if able:
                return able[int(self.random.random() * len(able))]
            moments = [at for at in map(self._moment, self._fibers) if at is not None]
            if self._timers:
                moments.append(self._timers[0][0])
            if not moments or min(moments) > self._until:
                self._stuck = f"nobody goes on at {self.now:.1f}: {[(f.process.name, f.target) for f in self._fibers]}"
                return None
            self.now = max(self.now, min(moments))

    def _strike(self) -> None:
        while self._timers and self._timers[0][0] <= self.now:
            heapq.heappop(self._timers)[2]()

    def _moment(self, fiber: Fiber) -> float | None:
        """Return when a fiber that waits may go on by time alone."""
        if fiber.process.stalled > self.now:
            return fiber.process.stalled
        return fiber.deadline
