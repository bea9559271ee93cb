"""Processes that are timed from start to end, on a given number of cores, and the command `xpsql` among them.

`child` runs a function of this package in a process of its own: ``python -m benchmarks.process MODULE:FUNCTION ARGUMENTS``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import Figure, spread

if TYPE_CHECKING:
    import xpsql

TIMEOUT_SECONDS = 1800
PEAK_UNIT = 1 if sys.platform == "darwin" else 1024
TRAIN = "TRAIN OR REPLACE MODEL ctr USING {using} IGNORE (ts) {settings} AS SELECT * FROM parquet.`{data}`"


class Measured(NamedTuple):
    """A process that ended well.

    Attributes:
        seconds: from its start to its end.
        cpu: CPU seconds of all its threads.
        peak_bytes: its largest resident memory, or that of the process that started it, so keep that one small.
        output: what it wrote to stdout.
    """

    seconds: float
    cpu: float
    peak_bytes: int
    output: str


def measure(command: Sequence[str | Path]) -> Measured:
    """Run a command.

    Raises:
        RuntimeError: it failed, or took longer than half an hour; has what it wrote to stderr.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment)
        deadline = threading.Timer(TIMEOUT_SECONDS, process.kill)
        deadline.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
        finally:
            deadline.cancel()
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (output, errors):
            file.seek(0)
        if process.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))} ended with {process.returncode}: {errors.read()}")
        return Measured(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * PEAK_UNIT, output.read())


@contextmanager
def cores(count: int, first: int | None = None) -> Iterator[None]:
    """Let processes started meanwhile use `count` cores, from the `first` of those of this process or the last ones."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < count:
        raise RuntimeError(f"This measurement needs {count} cores, this process may use {len(allowed)}.")
    start = len(allowed) - count if first is None else first % len(allowed)
    os.sched_setaffinity(0, allowed[start : start + count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def num_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_turns(rounds: int, work: Mapping[str, Callable[[], Measured]], warm: Iterable[str] = ()) -> dict[str, list[Measured]]:
    """Measure several kinds of work in turns.

    Args:
        warm: those that run once before, which is not counted: it compiles what later processes find.
    """
    for name in warm:
        work[name]()
    found: dict[str, list[Measured]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, one in work.items():
            found[name].append(one())
    return found


def seconds(runs: Iterable[Measured]) -> list[float]:
    return [one.seconds for one in runs]


def cpu(runs: Iterable[Measured]) -> list[float]:
    return [one.cpu for one in runs]


def speed(what: str, count: int, runs: Iterable[Measured], peer: str = "") -> Figure:
    """Return rows a second."""
    return spread(what, [count / one.seconds for one in runs], "rows/s", peer)


def installed(*names: str) -> bool:
    """Tell whether modules, or programs on the PATH, are there."""
    return all(which(name) is not None or find_spec(name) is not None for name in names)


def call(function: Callable[..., object], *arguments: object) -> list[str]:
    """Return the command that calls a function of this package in a process of its own."""
    named = f"{function.__module__}:{function.__qualname__}"
    return [sys.executable, "-m", "benchmarks.process", named, json.dumps(arguments, default=str)]


def child(function: Callable[..., Iterable[Any]], *arguments: object) -> tuple[list[Any], Measured]:
    """Call a generator function in a process of its own; return what it yields, as JSON has it, and what it used."""
    measured = measure(call(function, *arguments))
    return [json.loads(line) for line in measured.output.splitlines() if line[:1] in "[{"], measured


def figures_of(function: Callable[..., Iterable[Figure]], *arguments: object) -> Iterator[Figure]:
    """Yield the figures that a function yields in a process of its own."""
    for values in child(function, *arguments)[0]:
        yield Figure(*values)


class Xpsql(NamedTuple):
    """The command `xpsql` on a warehouse in a folder."""

    folder: Path

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def command(self, statement: str, *more: str) -> list[str]:
        return [sys.executable, "-m", "xpsql", "sql", statement, "--warehouse", str(self.warehouse), "--quiet", *more]

    def run(self, statement: str) -> Measured:
        """Run a statement as a process of its own."""
        return measure(self.command(statement))

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query."""
        output = measure(self.command(query, "--format", "json")).output
        return [json.loads(line) for line in output.splitlines()]

    def quality(self, test: Path, model: str = "ctr") -> tuple[float, float]:
        """Return the test AUC and PCOPC of a model."""
        (row,) = self.rows(f"SELECT auc, pcopc FROM ML.EVALUATE(MODEL {model}, (SELECT * FROM parquet.`{test}`))")
        return row["auc"], row["pcopc"]


def connect(warehouse: str | Path, engine: str = "duckdb", **settings: Any) -> xpsql.Session:
    """Return a session in this process that reports nothing."""
    import xpsql
    from xpsql.platform.progress import SilentReporter

    return xpsql.connect(warehouse, engine, SilentReporter(), **settings)


def num_rows(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def num_features(warehouse: Path, model: str = "ctr") -> int:
    from xpsql.warehouse.models import Models

    return int(Models(warehouse).version(model).manifest.learned.rows or 0)


if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    for value in getattr(import_module(module), name)(*json.loads(sys.argv[2])) or ():
        print(json.dumps(value), flush=True)
