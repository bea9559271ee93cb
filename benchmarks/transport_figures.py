"""Figures of the transport: round trips beside other transports', and what shards take."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from benchmarks.figures import Figure
from benchmarks.process import measure

PEERS = {"ZeroMQ": ("zeromq", "zmq", 1.0), "Arrow Flight": ("flight", "pyarrow.flight", 3.0)}
MPIRUN = [
    "mpirun",
    "--allow-run-as-root",
    "--oversubscribe",
    "--bind-to",
    "none",
    "--mca",
    "mpi_yield_when_idle",
    "1",
    "-n",
    "2",
]


def round_trips() -> Iterator[Figure]:
    """Yield microseconds, and how many times longer the other transports take."""
    ours = trips("xpsql")
    for name, value in ours.items():
        yield Figure(f"round trip: {name}", value, "us")
    for peer, (argument, module, least) in PEERS.items():
        if find_spec(module) is None:
            continue
        for name, value in trips(argument).items():
            yield Figure(f"round trip: {name}", value, "us")
            where = name.removeprefix(f"{peer} ")  # each on the kind of socket that it has
            yield Figure(f"{peer}'s time over ours {where}", value / ours[f"xpsql {where}"], "x", least)
    if find_spec("mpi4py") and shutil.which("mpirun"):
        for name, value in parsed([*MPIRUN, sys.executable, "-m", "benchmarks.round_trips", "mpi"]).items():
            yield Figure(f"round trip: {name}", value[0], "us")


def trips(transport: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.round_trips", transport]
    return {name: value for name, (value, _) in parsed(command).items()}


def shards(quick: bool) -> Iterator[Figure]:
    """Yield keys per second of pulls and pushes, the cost of more shards, and 16 connections at once."""
    sizes = ["--rows", "40000", "--vectors", "40000", "--rounds", "1"] if quick else []
    measured = parsed([sys.executable, "-m", "benchmarks.transport", *sizes])
    for name, (value, unit) in measured.items():
        yield Figure(name, value, unit, 0.0 if name.endswith("lost") else None, at_least=False)


def parsed(command: list[str]) -> dict[str, tuple[float, str]]:
    """Return the lines "value unit; name" of a command's output by name."""
    found = {}
    for line in measure(command).output.splitlines():
        figure, name = line.split("; ")
        value, unit = figure.split(maxsplit=1)
        found[name] = (float(value), unit)
    return found
