"""What the simulation says of 1 to 800 shards and 5,000 workers, and of a day of ten billion rows; and its picture."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import Figure
from benchmarks.scale.constants import QUANTILES, Constants
from benchmarks.scale.model import simulated
from benchmarks.scale.setting import Latency, Load, Setting, changed
from xpsql.platform.training.planning.forecast import RATES, worker_seconds
from xpsql.warehouse.checksums import NUM_SLICES

ROW_SECONDS, XNN_ROW_SECONDS = 4.4e-6, 71e-6
"""Of `xftrl`, as in docs/scaling.md; and of `xnn` at the 14,000 rows a second of a core that it once took: on the safe side."""
KEYS = {4096: 24_000, 65_536: 250_000}
"""Rows of a batch, and its distinct keys."""
CENTRE = Latency(50e-6, 1e-3)
TEN_GIGABIT = 1.25e9
SHARDS, WORKERS, EACH = (1, 10, 100, 800), (1, 4, 16, 64, 256, 1024, 5000), 6
DAY_ROWS, DAY_BATCH, DAY_KEYS, DAY_DIM, DAY = 10**10, 65_536, 640_000, 10, ((30, 260), (40, 260), (64, 800))
FAILURES_A_DAY = 0.005


def load(batch: int) -> Load:
    """Return the work of `xftrl` on batches of docs/scaling.md."""
    return Load(10**9, 1, ROW_SECONDS, KEYS[batch], batch, 1.0, 1, 0)


def parts_of(shards: int, slices: int = NUM_SLICES) -> tuple[float, ...]:
    """Return each shard's part of the keys, by the slices that it has."""
    bounds = [-(-number * slices // shards) for number in range(shards + 1)]
    return tuple((stop - start) / slices for start, stop in itertools.pairwise(bounds))


def centre(workers: int, shards: int, batch: int, constants: Constants | None, each: int = EACH) -> Setting:
    """Return a training on as many machines of a data centre as it has tasks."""
    spread, heartbeat = (1.0,), Setting.heartbeat
    if constants is not None:
        spread = tuple(constants.values[f"xftrl: a wave, quantile {q:g} over the mean"] for q in QUANTILES)
        heartbeat = constants.values["the driver, a heartbeat"]
    where = {
        "latency": CENTRE,
        "network": TEN_GIGABIT,
        "spread": spread,
        "keys": parts_of(shards),
        "turn": each,
        "heartbeat": heartbeat,
    }
    return Setting(workers, shards, batch, load(batch), each * workers, **where)


def figures(constants: Constants | None, quick: bool) -> Iterator[Figure]:
    """Yield rows a second for numbers of workers and shards, and the hours of XPS's day."""
    for batch in KEYS:
        for shards in SHARDS[:1] if quick else SHARDS:
            for workers in WORKERS[:2] if quick else WORKERS:
                given = centre(workers, shards, batch, constants)
                found, alone = simulated(given), workers * batch / worker_seconds(given.load, batch, shards, RATES)
                what = f"batch {batch:,}, {shards} shards, {workers:,} workers"
                yield Figure(f"{what}: M rows/s", found.rate / 1e6, "M rows/s")
                yield Figure(f"{what}: of what workers could compute", found.rate / alone, "x")
                yield Figure(f"{what}: a shard's core at work", found.busy, "x")
                yield Figure(f"{what}: the driver's core at work", found.coordinator, "x")
    for workers, shards in DAY[:1] if quick else DAY:
        yield day(workers, shards, constants, 100 if quick else math.ceil(DAY_ROWS / DAY_BATCH))


def day(workers: int, shards: int, constants: Constants | None, batches: int) -> Figure:
    """Return the hours of a day like XPS's: machines of unequal speed, some of them lost, checkpoints every minute."""
    work = Load(DAY_ROWS, 1, XNN_ROW_SECONDS, DAY_KEYS, DAY_BATCH, 1.0, DAY_DIM, 0)
    given = changed(
        centre(workers, shards, 65_536, constants), load=work, batches=batches, turn=16, sigma=0.1, stragglers=0.01,
        every=60.0, writing=10.0, failures=FAILURES_A_DAY, restart=90.0,
    )  # fmt: skip
    found = simulated(given)
    hours = found.seconds * math.ceil(DAY_ROWS / DAY_BATCH) / batches / 3600
    return Figure(f"ten billion rows, {workers} workers, {shards} shards: hours", hours, "h")


WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 400, 64, 48, 132, 48
COLOURS = {1: "#8a8a8a", 10: "#c98a1b", 100: "#2f7d4f", 800: "#2456a6"}
MOST_WORKERS, LEAST_RATE, MOST_RATE = 5000.0, 0.1, 1000.0


def at(workers: float, rate: float) -> str:
    """Return a place of the picture, whose axes are logarithms."""
    across = math.log(workers) / math.log(MOST_WORKERS) * (WIDTH - LEFT - RIGHT)
    up = math.log(rate / LEAST_RATE) / math.log(MOST_RATE / LEAST_RATE) * (HEIGHT - TOP - BOTTOM)
    return f"{LEFT + across:.1f},{HEIGHT - BOTTOM - up:.1f}"


def text(place: str, words: str, more: str = "") -> str:
    x, y = place.split(",")
    return f'<text x="{x}" y="{y}"{more}>{words}</text>'


def picture(found: Mapping[str, Any]) -> str:
    """Return the curves of a document as SVG: rows a second by workers, a line for each number of shards and batch size."""
    lines: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    for row in found["rows"]:
        what, _, kind = row["what"].rpartition(": ")
        if kind == "M rows/s":
            batch, shards, workers = what.removeprefix("batch ").rsplit(", ", 2)
            lines[batch, int(shards.split()[0])].append((int(workers.split()[0].replace(",", "")), row["value"]))
    drawn = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">']
    drawn += ["<title>Rows a second by workers and shards, simulated</title>"]
    drawn += [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    for rate in (0.1, 1.0, 10.0, 100.0, 1000.0):
        drawn.append(f'<path d="M{at(1, rate)} L{at(MOST_WORKERS, rate)}" stroke="#ddd"/>')
        drawn.append(text(at(1, rate).replace(str(LEFT) + ".0", str(LEFT - 8)), f"{rate:g}M", ' text-anchor="end"'))
    for workers in (1, 10, 100, 1000, 5000):
        x = at(workers, LEAST_RATE).split(",")[0]
        drawn.append(text(f"{x},{HEIGHT - BOTTOM + 20}", f"{workers:,}", ' text-anchor="middle"'))
    for (batch, shards), points in lines.items():
        dashes = "" if batch == "65,536" else ' stroke-dasharray="5 4"'
        way = " L".join(at(workers, max(rate, LEAST_RATE)) for workers, rate in points)
        drawn.append(f'<path d="M{way}" fill="none" stroke="{COLOURS[shards]}" stroke-width="2"{dashes}/>')
        if batch == "65,536":
            x, y = way.rpartition("L")[2].removeprefix("M").split(",")
            place, words = f"{float(x) + 6:.1f},{float(y) + 4:.1f}", f"{shards} shard{'s' * (shards > 1)}"
            drawn.append(text(place, words, f' fill="{COLOURS[shards]}"'))
    drawn.append(text(f"{LEFT},{TOP - 20}", "Rows a second (simulated); full lines: batches of 65,536 rows, dashed: 4,096"))
    drawn += [text(f"{WIDTH / 2:.0f},{HEIGHT - 8}", "workers", ' text-anchor="middle"'), "</svg>"]
    return "\n".join(drawn) + "\n"
