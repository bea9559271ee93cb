"""Tasks as processes of this machine: what Spark does, without Spark."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from tests.forkserver import CONTEXT
from xpsql.platform.engines.tasks import Running, Task, TaskWords
from xpsql.platform.errors import TrainingError

START_SECONDS = 60.0
WORDS = TaskWords("This machine", "has {} for a task", "Take more processes", "Take a larger machine")


class ProcessTasks:
    """Starts each task as a process; `started` holds them by name, for tests that kill."""

    host = "127.0.0.1"
    words = WORDS

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.memory: int | None = None
        self.started: dict[str, Processes] = {}

    def slots(self, wanted: int, gang: bool) -> int:
        return self.num_slots

    def memory_bytes(self) -> int | None:
        return self.memory

    def start(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Running:
        self.started[name] = job = Processes(function, count, name)
        job.start()  # a task may be at work, and a test want to kill one, before the last has begun
        return job


class Processes:
    """Tasks of one kind."""

    def __init__(self, function: Callable[[Task], None], count: int, name: str) -> None:
        self.name = name
        self.processes = [CONTEXT.Process(target=run, args=(function, Task(i, 0, 1)), daemon=True) for i in range(count)]
        self._started = threading.Event()

    def start(self) -> None:
        for process in self.processes:
            process.start()
        self._started.set()

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        if any(process.exitcode for process in self.processes):
            raise TrainingError(f"{self.name} failed: a process ended with {[p.exitcode for p in self.processes]}")
        return all(process.exitcode == 0 for process in self.processes)

    def cancel(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()

    def kill(self, number: int) -> None:
        assert self._started.wait(START_SECONDS)
        pid = self.processes[number].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)


def run(function: Callable[[Task], None], task: Task) -> None:
    try:
        function(task)
    except BaseException:
        sys.exit(1)  # the driver has been notified
