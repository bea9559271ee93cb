"""Measure what messages, keys and rows cost here, with shards and workers in processes of their own.

    python -m benchmarks.scale.constants OUT.json [--force] [--quick]

CPU seconds of workers and shards over batches of several sizes on one shard and on four are fitted to the formulas of
docs/scaling.md; a constant's bounds are what fits give that leave one measurement out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import Figure
from benchmarks.__main__ import document
from benchmarks.log import made
from benchmarks.process import call, measure, num_cores
from benchmarks.scale.processes import Asked, Found, Processes, given_of, statement_of
from benchmarks.scale.setting import Load, Setting, UnitCosts
from benchmarks.transport import HOST, cpu_of, server

ALGORITHMS = {"xftrl": ("xftrl", (16, 256, 1024, 4096, 16384)), "xnn": ("xnn (dim = 16)", (16, 64, 256, 1024))}
"""What USING says, and the batch sizes that it is fitted to."""
SHARDS, CROWDED, IDLE = (1, 4), 4, 1350
LOG_ROWS = 100_000
MOST_LOAD = 1.0
QUANTILES = tuple(np.round(np.linspace(0.025, 0.975, 20), 3))


class Fitted(NamedTuple):
    """A training's CPU seconds a batch.

    Attributes:
        calls: of a worker, in calls of shards; work: of a worker, else; reading: of that, its reading thread.
        pulls, pushes, rest: of all shards: in answering pulls and pushes, and in receiving and sending them.
    """

    shards: int
    batch: int
    keys: float
    calls: float
    work: float
    reading: float
    pulls: float
    pushes: float
    rest: float


def refuse_load(forced: bool) -> None:
    """End where others are at work on this machine, unless it is forced."""
    load = os.getloadavg()[0]
    if load > MOST_LOAD and not forced:
        sys.exit(f"The load of this machine is {load:.1f}, and figures mean nothing above {MOST_LOAD:g}: wait, or --force.")


def fitted(asked: Asked, found: Found) -> Fitted:
    """Return what a measured training with one worker took."""
    (one,), cpu = found.workers, np.array(found.shards).sum(axis=0)
    n = max(one.batches, 1)
    work, rest = one.cpu - one.calling, max(cpu[0] - cpu[1] - cpu[2], 0.0)
    parts = (one.calling, work, min(one.reading, work), cpu[1], cpu[2], rest)
    return Fitted(asked.shards, asked.batch, one.keys, *(float(part) / n for part in parts))


def solved(by: Sequence[Sequence[float]], values: Sequence[float]) -> NDArray[np.float64]:
    """Return coefficients, none below 0, that fit values with the least relative error."""
    from scipy.optimize import nnls

    weights = 1 / np.maximum(np.array(values), 1e-9)
    return np.asarray(nnls(np.array(by) * weights[:, None], np.array(values) * weights)[0])


def constants_of(runs: Sequence[Fitted]) -> dict[str, float]:
    """Return the constants that runs of an algorithm come to, in seconds."""
    messages = [(one.shards, one.keys) for one in runs]
    parts = ("calls", "pulls", "pushes", "rest")
    calls, pulls, pushes, rest = (solved(messages, [getattr(one, part) for one in runs]) for part in parts)
    batch, row = solved([(1, one.batch) for one in runs], [one.work for one in runs])
    power, log_keys = np.polyfit(np.log([one.batch for one in runs]), np.log([one.keys for one in runs]), 1)
    return {
        "worker, a message": calls[0] / 2,
        "worker, a key": calls[1],
        "shard, a pull": pulls[0] + rest[0] / 2,
        "shard, a push": pushes[0] + rest[0] / 2,
        "shard, a pulled key": pulls[1] + rest[1] / 2,
        "shard, a pushed key": pushes[1] + rest[1] / 2,
        "worker, a batch": batch,
        "worker, a row": row,
        "reading, part of a row": float(np.mean([one.reading / one.work for one in runs[-2:]])),
        "keys of a row": math.exp(log_keys),
        "keys, power of the batch": power,
    }


CROWD = "each doubling of the processes a core adds"
UNITS = {"a message": "us", "a pull": "us", "a push": "us", "a batch": "us", "a row": "us", "a key": "ns"}
SCALES = {"us": 1e6, "ns": 1e9, "": 1.0}


def unit_of(name: str) -> str:
    last = name.rpartition(", ")[2]
    return "ns" if last.endswith("key") else UNITS.get(last, "")


def spread_of(found: Found) -> list[float]:
    """Return quantiles of the waves of one worker on one shard, over their mean, without what lay beyond them."""
    waves = np.quantile(found.waves(), QUANTILES)
    return [float(one) for one in waves / waves.mean()]


def figures(log: Path, folder: Path, quick: bool) -> Iterator[Figure]:
    """Yield the constants."""
    seconds, warm = (0.3, 0.3) if quick else (1.5, 0.7)
    for name, (using, sizes) in ALGORITHMS.items():
        with given_of(statement_of(using, log), folder) as given, Processes(given, max(SHARDS), CROWDED) as processes:
            asked = [Asked(s, 1, b, warm=warm, seconds=seconds) for b in sizes for s in SHARDS]
            found = [processes.measure(one) for one in asked]
            runs = [fitted(*pair) for pair in zip(asked, found, strict=True)]
            whole = constants_of(runs)
            others = [constants_of(runs[:n] + runs[n + 1 :]) for n in range(len(runs))]
            for what, value in whole.items():
                bounds = [one[what] for one in others]
                unit = unit_of(what)
                scale = SCALES[unit]
                yield Figure(f"{name}: {what}", value * scale, unit, low=min(bounds) * scale, high=max(bounds) * scale)
            middle = found[asked.index(Asked(1, 1, 256, warm=warm, seconds=seconds))]
            for quantile, factor in zip(QUANTILES, spread_of(middle), strict=True):
                yield Figure(f"{name}: a wave, quantile {quantile:g} over the mean", factor, "x")
            together = Asked(CROWDED, CROWDED, 1024, warm=warm, seconds=seconds)
            yield Figure(f"{name}: {CROWD}", crowd(processes.measure(together), together, whole), "x")
            if name == "xftrl":
                yield idle(processes, 64 if quick else IDLE, warm, seconds)
    yield heartbeat(20 if quick else 300, 2.0 if quick else 8.0)


def crowd(found: Found, asked: Asked, constants: Mapping[str, float]) -> float:
    """Return by what part CPU seconds grow with each doubling of the processes a core."""
    batches = sum(one.batches for one in found.workers)
    taken = (sum(one.cpu for one in found.workers) + sum(one[0] for one in found.shards)) / max(batches, 1)
    keys = constants["keys of a row"] * asked.batch ** constants["keys, power of the batch"]
    messages = asked.shards * (2 * constants["worker, a message"] + constants["shard, a pull"] + constants["shard, a push"])
    each = constants["worker, a key"] + constants["shard, a pulled key"] + constants["shard, a pushed key"]
    alone = constants["worker, a batch"] + asked.batch * constants["worker, a row"] + messages + keys * each
    return max(0.0, taken / alone - 1) / math.log2((asked.shards + asked.workers) / num_cores())


def idle(processes: Processes, count: int, warm: float, seconds: float) -> Figure:
    """Return what a shard's batch takes with as many idle connections, over what it takes with none."""
    asked, taken = Asked(1, 1, 256, warm=warm, seconds=seconds), []
    for connections in (0, count):
        found = processes.measure(asked, connections)
        taken.append(found.shards[0][0] / max(found.workers[0].batches, 1))
    return Figure(f"shard, a batch with {count} idle connections, over one without", taken[1] / taken[0], "x")


def drive(tasks: int) -> None:
    """Be the driver of a job whose tasks do nothing, until the input ends."""
    from xpsql.platform.ps.transport.over_sockets import SOCKETS
    from xpsql.platform.training.tasks.coordinator import Coordinator

    with Coordinator("benchmark v1", 0, tasks, HOST, (), lambda role, number: None, None, None, SOCKETS) as coordinator:
        print(pickle.dumps(coordinator.contact).hex(), flush=True)
        sys.stdin.read()


def heartbeat(tasks: int, seconds: float) -> Figure:
    """Return what the heartbeat of a task takes its driver."""
    from xpsql.platform.training.tasks.coordinator import BEAT_SECONDS
    from xpsql.platform.training.tasks.membership import Membership

    with server(drive, tasks) as (said, process), ExitStack() as stack:
        contact = pickle.loads(bytes.fromhex(said[0]))
        for number in range(tasks):
            stack.enter_context(Membership(contact, "worker", number, 0))
        time.sleep(BEAT_SECONDS)
        before = cpu_of(process)
        time.sleep(seconds)
        beats = tasks * seconds / BEAT_SECONDS
        return Figure("the driver, a heartbeat", (cpu_of(process) - before) / beats * 1e6, "us")


class Constants(NamedTuple):
    """The constants of a document, by name, in seconds or as they are."""

    values: Mapping[str, float]

    def rates(self, name: str) -> UnitCosts:
        """Return an algorithm's rates; all its floats are in its keys."""
        worker, shard = (self.values[f"{name}: worker, a {kind}"] for kind in ("message", "key")), ("pull", "push")
        served = (self.values[f"{name}: shard, a {kind}"] for kind in (*shard, *(f"{one}ed key" for one in shard)))
        return UnitCosts(*worker, 0.0, *served, 0.0, 0.0)

    def load(self, name: str, batch: int) -> Load:
        """Return an algorithm's work, a row's with its part of a batch's."""
        row = self.values[f"{name}: worker, a row"] + self.values[f"{name}: worker, a batch"] / batch
        keys, power = self.values[f"{name}: keys of a row"], self.values[f"{name}: keys, power of the batch"]
        return Load(LOG_ROWS, 1, row, keys, 1, power, 1, 0)

    def setting(self, name: str, workers: int, shards: int, batch: int, batches: int) -> Setting:
        """Return a training on this machine."""
        spread = tuple(self.values[f"{name}: a wave, quantile {q:g} over the mean"] for q in QUANTILES)
        reading, load = self.values[f"{name}: reading, part of a row"], self.load(name, batch)
        local = {
            "encode": reading,
            "beside": True,
            "split": True,
            "take": 0.0,
            "heartbeat": 0.0,
            "spread": spread,
            "turn": batches,
        }
        return Setting(workers, shards, batch, load, batches * workers, self.rates(name), **local)


def constants_in(found: Mapping[str, Any]) -> Constants:
    """Return the constants of a document."""
    return Constants({row["what"]: row["value"] / SCALES.get(row["unit"], 1.0) for row in found["rows"]})


def calibrated(quick: bool, log: Path, folder: Path) -> dict[str, object]:
    """Return the document of all constants; the precise values, as others are computed from them."""
    found = list(figures(log, folder, quick))
    for figure in found:
        print(figure.line(), flush=True)
    return document("scale_constants", found, "python -m benchmarks.scale")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("benchmarks.scale.constants")
    parser.add_argument("out", type=Path)
    parser.add_argument("--quick", action="store_true", help="too short to mean anything: shows that it works")
    parser.add_argument("--force", action="store_true", help="also where others are at work on this machine")
    given = parser.parse_args(arguments)
    refuse_load(given.force)
    began = time.perf_counter()
    with TemporaryDirectory(prefix="xpsql-scale-") as name:
        folder = Path(name)
        measure(call(made, folder / "log", LOG_ROWS, 1000, 7))
        given.out.write_text(json.dumps(calibrated(given.quick, folder / "log", folder), indent=1) + "\n", encoding="utf-8")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
