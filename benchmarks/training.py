"""Trainings from Parquet to the committed model, whole processes, beside other tools on the same rows in turns.

One core means that the process and all its threads and children may run on one core only. A first training, which is not
counted, compiles what later processes find.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import Figure, Run, peers, ratio, spread
from benchmarks.log import PART_ROWS, write
from benchmarks.process import (
    TRAIN,
    Measured,
    Xpsql,
    child,
    cores,
    cpu,
    in_turns,
    installed,
    measure,
    num_cores,
    num_features,
    num_rows,
    seconds,
    speed,
)

VW = "Vowpal Wabbit"
ALGORITHMS = ("fm", "ffm", "xnn", "xnn (dim = 16)")
TARGETS = {
    "xftrl: times Vowpal Wabbit": ">= 3",
    "xftrl, 4M rows: times Vowpal Wabbit": ">= 3.5",
    "xftrl: peak memory above 600 MB, a feature": "<= 150",
    "xnn (dim = 16): times PyTorch": ">= 1.5",
    "xnn: times PyTorch": ">= 1.45",
    "xnn (dim = 16): times TorchRec's fused embeddings": ">= 1.2",
    "fm: times alphaFM": ">= 2.5",
    "a network of the user's in PyTorch: times PyTorch": ">= 1.5",
    "CPU, times plain: admit": "<= 1.2",
    "CPU, times plain: evaluation of 10 batches after every 100": "<= 1.1",
    "admit (min_count = 5): rows, part of all": "<= 0.5",
    "crosses: CPU, times without": "<= 1.4",
    "crosses: CPU, CROSS (animal * food), times Vowpal Wabbit": ">= 4",
}
LIVES = {
    "plain": "",
    "admit": "OPERATORS (admit (min_count = 5))",
    "evaluation of 10 batches after every 100": "EVALUATE EVERY 100 BATCHES ON 10 BATCHES",
}
LIVING = "TRAIN OR REPLACE MODEL ctr USING xftrl TIME ts {} WITH (workers = 1) AS SELECT * FROM parquet.`{}`"
CROSSES = {"plain": "", "CROSS (animal * food)": "CROSS (animal * food)"}
CROSSED = "TRAIN OR REPLACE MODEL ctr USING xftrl {} AS SELECT * FROM parquet.`{}`"
VALUES, NOISE = 2_000, (2, 5, 10, 50, 100, 200, 500, 1_000, 10_000)


# The tools that an algorithm is compared with: a module or program that each needs, and how it is measured.
PEERS: dict[str, dict[str, tuple[str, Callable[[Path, Path], peers.Trained]]]] = {
    "fm": {"alphaFM": ("fm_train", peers.alphafm)},
    "xnn": {"PyTorch": ("torch", peers.torch_like("pytorch", 8))},
    "xnn (dim = 16)": {
        "PyTorch": ("torch", peers.torch_like("pytorch", 16)),
        "TorchRec's fused embeddings": ("fbgemm_gpu", peers.torch_like("torchrec", 16)),
    },
}


def figures(run: Run) -> Iterator[Figure]:
    with cores(1):
        yield from linear(run)
        yield from others(run)
        yield from network(run)
        yield from lifecycle(run)
        yield from crosses(run)
    if num_cores() > 1:
        yield from two_cores(run)


def linear(run: Run) -> Iterator[Figure]:
    """Yield the figures of `xftrl` beside Vowpal Wabbit's FTRL."""
    data, model, xpsql = run.log / "train.parquet", run.folder / "vw.model", Xpsql(run.folder)
    statement, millions = TRAIN.format(using="xftrl", settings="", data=data), num_rows(data) // 1_000_000
    size = f", {millions}M rows" if millions > 1 else ""
    work: dict[str, Callable[[], Measured]] = {"xftrl": lambda: xpsql.run(statement)}
    if installed("vowpalwabbit"):
        work[VW] = lambda: measure(peers.vw_command(run.log / "train.vw", model))
    found = in_turns(run.rounds, work, ["xftrl"])
    for name, runs in found.items():
        peer = "" if name == "xftrl" else name
        yield speed(f"{name}{size}: one core", num_rows(data), runs, peer)
        yield spread(f"{name}{size}: one core, CPU", cpu(runs), "s", peer)
    ours, bound = found["xftrl"], ""
    if VW in found:
        yield ratio(f"xftrl{size}: times {VW}", seconds(found[VW]), seconds(ours), VW)
        theirs = peers.vw_auc(run.log, model)
        bound = f">= {theirs - 0.001:.4f}"
        yield Figure(f"{VW}: test AUC", theirs, "", peer=VW)
    yield Figure("xftrl: test AUC", xpsql.quality(run.log / "test.parquet")[0], "", bound)
    peak, features = min(one.peak_bytes for one in ours), num_features(xpsql.warehouse)
    yield Figure("xftrl: features", features, "rows")
    yield Figure("xftrl: peak memory", peak / 2**20, "MB")
    yield Figure("xftrl: peak memory above 600 MB, a feature", max(0, peak - 600 * 2**20) / features, "bytes")
    (stages,), _ = child(staged, statement, xpsql.warehouse, time.monotonic())
    yield from (Figure(f"xftrl: {name}", value, "s") for name, value in stages.items())


def staged(statement: str, warehouse: str, began: float) -> Iterator[dict[str, float]]:
    """Run a statement as `xpsql sql` does; yield its stages.

    Start-up lasts until the first training or prediction begins: imports, opening the engine, checks, reading a model.

    Args:
        began: time.monotonic() of the process that starts this one.
    """
    from xpsql import connect
    from xpsql.platform.progress import SilentReporter

    class Clock(SilentReporter):
        started = finished = 0.0

        def start(self, title: str, total_examples: int | None) -> None:
            self.started = time.monotonic()

        def finish(self, message: str) -> None:
            self.finished = time.monotonic()

    clock = Clock()
    with connect(warehouse, reporter=clock) as session:
        session.sql(statement)
    work, rest = clock.finished - clock.started, time.monotonic() - clock.finished
    yield {"start-up": clock.started - began, "work, with writing": work, "the rest": rest}


def others(run: Run) -> Iterator[Figure]:
    """Yield the figures of algorithms with their defaults, and of the tools that are installed."""
    data, xpsql = run.log / "train.parquet", Xpsql(run.folder)
    for using in ALGORITHMS[::2] if run.quick else ALGORITHMS:
        statement = TRAIN.format(using=using, settings="", data=data)
        work: dict[str, Callable[[], Measured]] = {using: partial(xpsql.run, statement)}
        quality: dict[str, float] = {}
        for name, (needs, peer) in PEERS.get(using, {}).items():
            if not installed(needs):
                continue

            def trained(name: str = name, peer: Any = peer, quality: dict[str, float] = quality) -> Measured:
                measured, quality[name] = peer(run.log, run.folder)
                return measured

            work[name] = trained
        found = in_turns(run.rounds, work, [using])
        yield speed(f"{using}: one core", num_rows(data), found[using])
        yield spread(f"{using}: one core, CPU", cpu(found[using]), "s")
        auc, pcopc = xpsql.quality(run.log / "test.parquet")
        yield Figure(f"{using}: test AUC", auc, "")
        yield Figure(f"{using}: test PCOPC", pcopc, "")
        for name, value in quality.items():
            yield Figure(f"{using}: test AUC of {name}", value, "", peer=name)
            yield ratio(f"{using}: times {name}", seconds(found[name]), seconds(found[using]), name)


def network(run: Run) -> Iterator[Figure]:
    """Yield the figures of a network of the user's in PyTorch beside PyTorch alone."""
    if not installed("torch"):
        return
    file, data, what = run.folder / "mlp.py", run.log / "train.parquet", "a network of the user's in PyTorch"
    file.write_text(peers.MLP, encoding="utf-8")
    using = f"network (file = '{file}', class = 'Mlp', dim = 16)"
    statement = TRAIN.format(using=using, settings="WITH (batch_size = 1024)", data=data)
    work: Mapping[str, Callable[[], Measured]] = {
        "ours": lambda: Xpsql(run.folder).run(statement),
        "PyTorch": lambda: peers.torch_like("pytorch", 16)(run.log, run.folder).measured,
    }
    found = in_turns(run.rounds, work, ["ours"])
    yield spread(f"{what}: CPU", cpu(found["ours"]), "s")
    yield ratio(f"{what}: times PyTorch", cpu(found["PyTorch"]), cpu(found["ours"]), "PyTorch")


def lifecycle(run: Run) -> Iterator[Figure]:
    """Yield what admission and evaluation cost a training, and what admission saves."""
    data, xpsql, rows, aucs = run.log / "train.parquet", Xpsql(run.folder), {}, {}
    work = {name: partial(xpsql.run, LIVING.format(clauses, data)) for name, clauses in LIVES.items()}
    for name in ("plain", "admit"):
        work[name]()
        rows[name], aucs[name] = num_features(xpsql.warehouse), xpsql.quality(run.log / "test.parquet")[0]
    found = in_turns(run.rounds, work, list(LIVES)[2:])
    for name in list(LIVES)[1:]:
        yield ratio(f"CPU, times plain: {name}", cpu(found[name]), cpu(found["plain"]))
    yield Figure("admit (min_count = 5): rows, part of all", rows["admit"] / rows["plain"], "")
    yield Figure("admit (min_count = 5): test AUC", aucs["admit"], "", f">= {aucs['plain'] - 0.002:.4f}")


def crosses(run: Run) -> Iterator[Figure]:
    """Yield the figures of a label that only a cross tells, with it and without, beside Vowpal Wabbit.

    Source: the benchmark of Fwumious Wabbit (outbrain-inc/fwumious_wabbit, BENCHMARK.md), rebuilt from its description.
    """
    rows, data, xpsql, features = run.size(20_000, 3_000_000), run.folder / "crosses.parquet", Xpsql(run.folder), {}
    with data.with_suffix(".vw").open("wb") as text:
        sizes = [min(PART_ROWS, rows - start) for start in range(0, rows, PART_ROWS)]
        write((cross_part(number, size) for number, size in enumerate(sizes)), data, text)
    work: dict[str, Callable[[], Measured]] = {
        name: partial(xpsql.run, CROSSED.format(clause, data)) for name, clause in CROSSES.items()
    }
    for name, train in list(work.items()):
        train()
        features[name] = num_features(xpsql.warehouse)
        if installed("vowpalwabbit"):
            more = "--interactions ab" if CROSSES[name] else ""
            work[f"{VW}, {name}"] = partial(measure, peers.vw_command(data.with_suffix(".vw"), run.folder / "vw", more))
    found = {name: cpu(runs) for name, runs in in_turns(run.rounds, work).items()}
    plain, crossed = (found[name] for name in CROSSES)
    for name, spent in found.items():
        yield spread(f"crosses: CPU, {name}", spent, "s", VW if name.startswith(VW) else "")
    yield ratio("crosses: CPU, times without", crossed, plain)
    for name in CROSSES if len(found) > 2 else ():
        yield ratio(f"crosses: CPU, {name}, times {VW}", found[f"{VW}, {name}"], found[name], VW)
    new = features["CROSS (animal * food)"] - features["plain"]
    added = [(one - other) / new * 1e9 for one, other in zip(crossed, plain, strict=True)]
    yield spread("crosses: CPU added, a new row", added, "ns")


def cross_part(number: int, rows: int) -> pa.Table:
    """Return rows in which a grazer likes plants nine times in ten, a hunter meat, and nine columns of noise."""

    def texts(kinds: tuple[str, ...], numbers: Any) -> pa.Array:
        return pa.array([f"{kinds[n % len(kinds)]}-{n}" for n in range(int(numbers.max()) + 1)]).take(pa.array(numbers))

    random = np.random.default_rng((1, number))
    animal, food = random.integers(0, VALUES, (2, rows))
    label = ((animal + food) % 2 == 0) ^ (random.random(rows) < 0.1)
    named = {"animal": texts(("grazer", "hunter"), animal), "food": texts(("plant", "meat"), food)}
    noise = {f"n{n}": texts((f"n{n}",), random.integers(0, most, rows)) for n, most in enumerate(NOISE)}
    return pa.table({"label": label.astype(np.int8), **named, **noise})


def two_cores(run: Run) -> Iterator[Figure]:
    """Yield how much faster `xftrl` is than Vowpal Wabbit on two cores; the group `cores` has more algorithms and cores."""
    data, xpsql = run.log / "train.parquet", Xpsql(run.folder)
    statement = TRAIN.format(using="xftrl", settings="", data=data)
    work = {"xftrl": lambda: xpsql.run(statement)}
    if installed("vowpalwabbit"):
        work[VW] = lambda: measure(peers.vw_command(run.log / "train.vw", run.folder / "vw.model"))
    with cores(2):
        found = in_turns(run.rounds, work, ["xftrl"])
    yield speed("xftrl: two cores", num_rows(data), found["xftrl"])
    if VW in found:
        yield ratio(f"xftrl: two cores, times {VW} on two", seconds(found[VW]), seconds(found["xftrl"]), VW)
