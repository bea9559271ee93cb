"""Profiling: where the time of a training goes, step by step."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from ...warehouse.trainings.progress import LEARNING, READING


class Clock:
    """Sums up the seconds of a thread's steps; together they are all of its time.

    Attributes:
        seconds: by step, so far; another thread may read it.
    """

    def __init__(self, steps: Iterable[str]) -> None:
        self.seconds = dict.fromkeys(steps, 0.0)
        self._last = time.perf_counter()

    def start(self) -> None:
        """Begin a lap, and count the time since the last one for nothing: another clock has it."""
        self._last = time.perf_counter()

    def lap(self, step: str) -> None:
        """Count the time since the last lap for a step."""
        now = time.perf_counter()
        self.seconds[step] += now - self._last
        self._last = now


class Clocks:
    """The clocks of one worker, and of the threads that read and encode for it.

    Steps of reading: `read`, `encode`, and `read_wait`, until the worker has taken a batch. Of learning: `input_wait`, until
    there is a batch; `pace_wait`, until other workers allow the step; `pull` and `push`, which wait for remote shards, and do
    the work of local ones; `compute`; and `count`, the metrics. Waiting shows the bottleneck: a long `input_wait` says that
    reading is slower than learning, a long `read_wait` the opposite.
    """

    def __init__(self) -> None:
        self.reading = Clock(READING)
        self.learning = Clock(LEARNING)
        self._readers: dict[int, Clock] = {}

    def reader(self) -> Clock:
        """Return the clock of this thread, one of several that read, and begin a lap."""
        clock = self._readers.setdefault(threading.get_ident(), Clock(READING))
        clock.start()
        return clock

    @property
    def seconds(self) -> dict[str, float]:
        """By step, so far; threads that read are summed."""
        readers = [self.reading, *self._readers.copy().values()]
        return {**{step: sum(one.seconds[step] for one in readers) for step in READING}, **self.learning.seconds}


class Compiled:
    """Counts compiled programs, and the seconds that they took."""

    def __init__(self) -> None:
        self.programs, self.seconds = 0, 0.0

    @property
    def counted(self) -> tuple[int, float]:
        """How many, and their seconds."""
        return self.programs, self.seconds

    def add(self, seconds: float) -> None:
        """Count one."""
        self.programs, self.seconds = self.programs + 1, self.seconds + seconds


class Timings(NamedTuple):
    """A worker's timings, as it reports them: seconds by step, programs compiled, and the seconds that they took."""

    seconds: dict[str, float]
    compilations: int = 0
    compile_seconds: float = 0.0


def summed(workers: Iterable[Timings]) -> dict[str, float]:
    """Return the time of several workers together, as ML.TRAINING_INFO names it."""
    spent = list(workers)
    seconds = {f"{step}_seconds": sum(one.seconds[step] for one in spent) for step in (*READING, *LEARNING)}
    compiled = sum(one.compilations for one in spent)
    return {**seconds, "compilations": compiled, "compile_seconds": sum(one.compile_seconds for one in spent)}
