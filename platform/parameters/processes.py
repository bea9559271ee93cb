"""Tasks as processes of this machine: what shards of a service are where no engine has tasks."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable

from ..cores import cores
from ..engines.tasks import Running, Task, TaskWords
from ..errors import LostError

WORDS = TaskWords("This machine", "memory", "Take more shards", "Take a larger machine")
STARTS = "import pickle, sys; function, task = pickle.load(sys.stdin.buffer); function(task)"
ENDED_SECONDS = 5.0


class Processes:
    """Processes that run a function, one for each task; see Running."""

    def __init__(self, function: Callable[[Task], None], count: int, name: str) -> None:
        self.name = name
        share = max(1, cores() // count)
        self.processes = [started(function, Task(number, 0, share)) for number in range(count)]

    def wait(self, seconds: float) -> bool:
        """See Running."""
        deadline = time.monotonic() + seconds
        for number, process in enumerate(self.processes):
            try:
                code = process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                return False
            if code:
                raise LostError(f"Process {process.pid} of {self.name}, number {number}, ended with {code}.")
        return True

    def cancel(self) -> None:
        """See Running; a process that does not end at once is killed."""
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(ENDED_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def started(function: Callable[[Task], None], task: Task) -> subprocess.Popen[bytes]:
    """Start a process that runs a function, and ends with this one: its heartbeats are answered no more then."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen([sys.executable, "-c", STARTS], stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    with process.stdin as pipe:  # not by arguments, which every user of the machine sees: it has the secret of the job
        pipe.write(pickle.dumps((function, task)))
    return process


class LocalProcesses:
    """Starts tasks as processes of this machine; see Tasks."""

    host = "127.0.0.1"
    words = WORDS

    def slots(self, wanted: int, gang: bool) -> int:
        """See Tasks."""
        return wanted

    def memory_bytes(self) -> int | None:
        """See Tasks."""
        return None

    def start(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Running:
        """See Tasks."""
        return Processes(function, count, name)
