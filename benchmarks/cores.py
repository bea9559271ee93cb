"""Rows a second on 1, 2, 4, ... cores, as many as the machine has: encoding alone, then trainings as whole processes, with the
threads that they take by default. Beside them, what the machine gives at most: processes of the same work at once, a core each,
that have nothing in common but its memory. `--rows` is the size of the log; as many rounds are run as fit into some minutes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import Figure, Run, ratio, spread
from benchmarks.process import TRAIN, Measured, Xpsql, child, connect, cores, num_cores, num_rows, seconds, speed

ENCODE = "encode"
ALGORITHMS = ("xftrl", "fm", "xnn (dim = 16)")
BATCH, BATCHES = 4096, 32
MOST_SECONDS = 150
"""No round begins that would end later, if it took as long as those before."""
TARGETS = {f"{using}, 2 cores: times one core": ">= 1.7" for using in ALGORITHMS}


class Timed(NamedTuple):
    """A process, and the rows a second between its start and its end."""

    process: Measured
    rate: float


def figures(run: Run) -> Iterator[Figure]:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # a card takes seconds of the start, and no part in the rest
    data, counts = run.log / "train.parquet", [1 << power for power in range(num_cores().bit_length())]
    works = (*ALGORITHMS[: run.size(1, 3)], ENCODE)
    found: dict[tuple[str, int], list[Timed]] = {(work, count): [] for work in works for count in counts}
    together: dict[tuple[str, int], list[float]] = {at: [] for at in found if at[1] > 1}
    for work in works:
        once(run.folder, work, data)  # compiles what later processes find
    began = time.perf_counter()
    for done in range(1, run.rounds + 1):
        for (work, count), runs in found.items():
            with cores(count):
                runs.append(once(run.folder, work, data))
            if count > 1:
                together[work, count].append(
                    count * found[work, 1][-1].process.seconds / at_once(run.folder, work, data, count)
                )
        if (time.perf_counter() - began) * (done + 1) / done > MOST_SECONDS:
            break
    for (work, count), runs in found.items():
        yield from scaling(f"{work}, {count} {'core' if count == 1 else 'cores'}", num_rows(data), found[work, 1], runs)
        if count > 1:
            yield spread(f"{work}, {count} processes, a core each: times one", together[work, count], "x")


def once(folder: Path, work: str, data: Path) -> Timed:
    """Do a work once, in a process of its own."""
    return encode(folder, data) if work == ENCODE else train(folder, work, data)


def at_once(folder: Path, work: str, data: Path, count: int) -> float:
    """Do a work in so many processes at once, each on a core and in a folder of its own; return the seconds of the longest."""

    def one(number: int) -> float:
        own = folder / f"at-once-{number}"
        own.mkdir(exist_ok=True)
        with cores(1, number):  # of this thread
            return once(own, work, data).process.seconds

    with ThreadPoolExecutor(count) as pool:
        return max(pool.map(one, range(count)))


def scaling(what: str, rows: int, one: Sequence[Timed], runs: Sequence[Timed]) -> Iterator[Figure]:
    """Yield what some cores make of a work beside one core: of whole processes, and without their start and end."""
    whole, inner = [timed.process for timed in runs], [1 / timed.rate for timed in runs]
    yield speed(what, rows, whole)
    yield ratio(f"{what}: times one core", seconds(timed.process for timed in one), seconds(whole))
    yield spread(f"{what}: without start and end", [timed.rate for timed in runs], "rows/s")
    yield ratio(f"{what}: without start and end, times one core", [1 / timed.rate for timed in one], inner)
    yield Figure(f"{what}: busy", median(measured.cpu / measured.seconds for measured in whole), "cores")


def train(folder: Path, using: str, data: Path) -> Timed:
    from xpsql.warehouse.models import Models

    xpsql = Xpsql(folder)
    measured = xpsql.run(TRAIN.format(using=using, settings="", data=data))
    manifest = Models(xpsql.warehouse).version("ctr").manifest
    return Timed(measured, manifest.learned.examples / (manifest.seconds or measured.seconds))


def encode(folder: Path, data: Path) -> Timed:
    (rate,), measured = child(rates, folder / "warehouse", data)
    return Timed(measured, *rate)


def rates(warehouse: str, data: str) -> Iterator[list[float]]:
    """Read and encode a log as a training of xftrl does, and leave its batches; yield the rows a second, in a list."""
    from xpsql.algorithms.linear.xftrl import XftrlOptions, xftrl
    from xpsql.platform.input.batches import Ladders
    from xpsql.platform.input.dealing import TurnAssignment
    from xpsql.platform.input.encoder import Encoder
    from xpsql.platform.input.prefetch import Abreast
    from xpsql.platform.input.roles import Roles
    from xpsql.platform.input.slots import columns_of
    from xpsql.platform.input.source import Source
    from xpsql.platform.input.timing import Clocks
    from xpsql.platform.ps.compiled.ladder import Ladder
    from xpsql.platform.ps.watermarks import turns_of

    with connect(warehouse) as session:
        scan = session.engine.scan(f"SELECT * FROM parquet.`{data}`")
        roles = Roles(("label",), None, None, None, None, ("ts",), (), (), nulls=True, grouped=False)
        columns = columns_of(scan.schema, roles, None)
        encoder, splits = Encoder(columns, xftrl(XftrlOptions(), columns.layout), seed=0, compact=True), scan.splits()
        source = Source(scan, splits, encoder, columns.learned, BATCH, Ladders(Ladder(), Ladder()), epoch=0, before=0)
        turns, began, rows = iter(turns_of(len(splits), 1)), time.perf_counter(), 0

        def deal() -> TurnAssignment | None:
            return next((TurnAssignment(turn) for turn in turns), None)

        with Abreast(lambda: source.pieces(deal, Clocks()), num_cores(), BATCHES) as items:
            for item in items:
                rows += getattr(item, "examples", 0)
        yield [rows / (time.perf_counter() - began)]
