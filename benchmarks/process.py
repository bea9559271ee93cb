"""Processes that are timed from their start to their end, on a given number of cores."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Self

TIMEOUT_SECONDS = 1800
TURN_SECONDS = 0.5
LOOK_SECONDS = 0.002
PEAK_UNIT = 1 if sys.platform == "darwin" else 1024


class Measured(NamedTuple):
    """A process that ended well.

    Attributes:
        seconds: from its start to its end.
        cpu_seconds: of all its threads.
        peak_bytes: its largest resident memory, or that of the process that started it, so keep that one small.
        output: what it wrote to stdout.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def measure(command: Sequence[str | Path]) -> Measured:
    """Run a command, whose Python may keep the modules that it compiles, as an installed one has them compiled.

    Raises:
        RuntimeError: it failed, or took longer than half an hour; has what it wrote to stderr.
    """
    with Started(command) as started:
        deadline = threading.Timer(TIMEOUT_SECONDS, started.process.kill)
        deadline.start()
        try:
            started.wait(0)
        finally:
            deadline.cancel()
        return started.measured(time.perf_counter() - started.began)


def alternate(commands: Sequence[tuple[int, Sequence[str | Path]]]) -> list[Measured]:
    """Run commands in turns of half a second, all but one standing still, so that a machine whose speed changes from minute to
    minute is the same to all.

    Args:
        commands: each with how many cores it may use.

    Returns:
        As `measure`, with the seconds of its turns.

    Raises:
        RuntimeError: as `measure`.
    """
    with ExitStack() as stack:
        live: dict[int, Started] = {}
        for number, (count, command) in enumerate(commands):
            with cores(count):
                live[number] = stack.enter_context(Started(command))
            live[number].send(signal.SIGSTOP)
        seconds, ended = [0.0] * len(live), dict(live)
        while live:
            for number, started in list(live.items()):
                start = time.perf_counter()
                started.send(signal.SIGCONT)
                while not (over := started.wait(os.WNOHANG)) and time.perf_counter() < start + TURN_SECONDS:
                    time.sleep(LOOK_SECONDS)
                seconds[number] += time.perf_counter() - start
                if over:
                    del live[number]
                elif seconds[number] > TIMEOUT_SECONDS:
                    raise RuntimeError(f"{started.command} has not ended after {TIMEOUT_SECONDS} s")
                else:
                    started.send(signal.SIGSTOP)
        return [started.measured(seconds[number]) for number, started in ended.items()]


class Started:
    """A process; leaving the context kills it if it has not ended."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self.command = " ".join(map(str, command))
        self._arguments = command

    def __enter__(self) -> Self:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._output, self._errors = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            self._arguments, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._errors, env=environment
        )
        return self

    def __exit__(self, *raised: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait()
        self._output.close()
        self._errors.close()

    def send(self, number: signal.Signals) -> None:
        """Send a signal; Popen's own way to would wait for a process that has just ended, and lose what it used."""
        os.kill(self.process.pid, number)

    def wait(self, options: int) -> bool:
        """Wait as os.wait4 does; tell whether it has ended."""
        pid, status, self._usage = os.wait4(self.process.pid, options)
        if pid:
            self.process.returncode = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def measured(self, seconds: float) -> Measured:
        """Return what it used, once it has ended.

        Raises:
            RuntimeError: it failed.
        """
        self._output.seek(0)
        self._errors.seek(0)
        if self.process.returncode:
            raise RuntimeError(f"{self.command} ended with {self.process.returncode}: {self._errors.read()}")
        used = self._usage
        return Measured(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * PEAK_UNIT, self._output.read())


def middle(runs: Sequence[Measured]) -> Measured:
    """Return the median of each figure of several runs, and the output of the last."""
    return Measured(
        statistics.median(run.seconds for run in runs),
        statistics.median(run.cpu_seconds for run in runs),
        statistics.median_low(run.peak_bytes for run in runs),
        runs[-1].output,
    )


@contextmanager
def cores(count: int) -> Iterator[None]:
    """Let processes started meanwhile use `count` cores, where the system can pin them.

    Raises:
        RuntimeError: this process has fewer.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    if len(allowed) < count:
        raise RuntimeError(f"This measurement needs {count} cores, this process may use {len(allowed)}.")
    os.sched_setaffinity(0, sorted(allowed)[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
