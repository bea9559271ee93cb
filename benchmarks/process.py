"""Processes that are timed from their start to their end, on a given number of cores."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

TIMEOUT_SECONDS = 1800
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
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment)
        deadline = threading.Timer(TIMEOUT_SECONDS, process.kill)
        deadline.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            deadline.cancel()
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))} ended with {process.returncode}: {errors.read()}")
        return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * PEAK_UNIT, output.read())


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
