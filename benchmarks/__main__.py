"""Measure xpsql and print a table of figures, targets and verdicts; docs/benchmarks.md explains it.

    python -m benchmarks [--quick | --large] [--log FOLDER] [--rounds N] [--only GROUP ...]

Without --log, a log is made in a temporary folder. A folder given has train.parquet, train.vw, test.parquet and test.vw,
and for --large train4.parquet and train4.vw.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import compact as compact_log
from benchmarks import vw
from benchmarks.crosses import CROSS, PLAIN, VW_CROSS
from benchmarks.figures import Figure, Note, heading
from benchmarks.many_ids import BI_INTERACTION
from benchmarks.peers.figures import beside, network_beside, towers_beside
from benchmarks.process import Measured, cores, measure, middle
from benchmarks.scripts import ALGORITHM, CROSSED, LIVES, LIVING, LONG, PREDICT, TRAIN, Stages, Xpsql
from benchmarks.towers import TOWERS
from benchmarks.transport_figures import round_trips, shards

QUICK_ROWS, ROWS, LARGE_ROWS, STORE_ROWS, CHECKED_ROWS = 20_000, 1_000_000, 4_000_000, 10_000_000, 2_000_000
ALGORITHMS = ("fm", "ffm", "xnn", "xnn (dim = 16)")
SEQUENCES = 100_000
TOWER_ROWS = 500_000
CONSTANT_BYTES = 600 * 2**20
OVERHEAD_BYTES = 16.0
# Each with whether it is the least or the most.
CHECKPOINT_TARGETS = {
    "full: the moment that training stands still": (50.0, False),
    "full: rows written per CPU second": (300.0, True),
    "full: memory beyond the shard's at its peak": (25.0, False),
    "full: the longest wait of a push": (50.0, False),
    "restore": (10.0, False),
}
LONG_BATCH = 4096
LONG_PASSES = 60  # of a million rows: about a minute on two cores
ROW_TARGETS = {"xftrl": 500.0, "xnn": 2000.0}  # microseconds
SERVING_TARGETS = {
    "xftrl, Arrow, 100 rows: HTTP layer, a CPU second": 400_000,
    "xftrl, JSON, one row: HTTP layer, a CPU second": 20_000,
    "xftrl, JSON, one row: service on one core": 20_000,
    "xftrl, Arrow, 100 rows: service on one core": 400_000,
    "xftrl, JSON, one row, 10000 requests/s: p99": 1,
    "xftrl, Arrow, 100 rows, 2000 requests/s: p99": 1,
    "xftrl, JSON, one row, 5000 requests/s while a version of 1 GB loads: p99.9": 2,
    "xftrl, Arrow, 100 rows, 1000 requests/s while a version of 1 GB loads: p99.9": 2,
    "xnn, a context and 100 candidates, 100 requests/s: p99": 3,
    "JSON, one row: HTTP layer, a CPU second": 20_000.0,
    "Arrow, 100 rows: HTTP layer, a CPU second": 400_000.0,
    "JSON, one row, 2000 requests/s: p99": 1.0,
}
STREAM_TARGETS = {
    "Kafka, JSON of 39 columns: events learned": (60_000.0, True),
    "Parquet files: times a batch training": (0.9, True),
    "a job that finds nothing new": (1.2, False),
    "PUBLISH EVERY 5 SECONDS: p99 from the broker to a version": (10.0, False),
}
DELTA_TARGETS = {
    "the longest that learning stood still": 20.0,
    "all versions on the disk, in whole ones": 15.0,
    "CPU seconds to load the newest": 1.3,
    "CPU seconds to load it": 4.0,
}
GROUPED_ROWS = 300_000


class CompactTargets(NamedTuple):
    """How many times the speed of flat rows is wanted, and which share of their bytes; None where nothing is."""

    grouped: float | None
    nested: float
    share: float | None


COMPACT_TARGETS = {100: CompactTargets(3.0, 10.0, 0.25), 10: CompactTargets(None, 3.0, None)}
CHAIN_TARGETS = {"one of each operator, ftrl": 1.5}


class Run(NamedTuple):
    """What is measured: the log, where models go, and how often."""

    log: Path
    folder: Path
    rounds: int
    quick: bool
    large: bool

    @property
    def xpsql(self) -> Xpsql:
        return Xpsql(self.folder)

    def sizes(self) -> list[tuple[str, float]]:
        """Return the training logs, each with the least speed-up over Vowpal Wabbit."""
        return [("train", 1.5), *([("train4", 2.0)] if self.large else [])]


def training(run: Run) -> Iterator[Figure]:
    """Whole processes on one core, in pairs; stages; test AUC; memory."""
    with cores(1):
        for name, wanted in run.sizes():
            ours, theirs = pairs(run, name)
            rows = num_rows(run.log / f"{name}.parquet")
            yield from speeds(f"{name}, one core", rows, ours, theirs)
            yield Figure(f"{name}, one core: times Vowpal Wabbit", theirs.seconds / ours.seconds, "x", wanted)
            yield Figure(f"{name}, one core: times Vowpal Wabbit, CPU", theirs.cpu_seconds / ours.cpu_seconds, "x")
            yield from qualities(run, name)
            yield from memory(name, ours, num_features(run.xpsql.warehouse))
            yield from stages(name, run.xpsql.stages(TRAIN.format(data=run.log / f"{name}.parquet")))


def two_cores(run: Run) -> Iterator[Figure]:
    """The same statement on two cores and on one, in turns, and against Vowpal Wabbit on two."""
    name = "train4" if run.large else "train"
    rows = num_rows(run.log / f"{name}.parquet")
    statement = TRAIN.format(data=run.log / f"{name}.parquet")
    alone, both, theirs = [], [], []
    run.xpsql.run(statement)  # not counted: compiles what later processes find
    for _ in range(run.rounds):
        for seen, done in zip((alone, both), run.xpsql.alternate([(1, statement), (2, statement)]), strict=True):
            seen.append(done)
        with cores(2):
            theirs.append(measure(vw.train(run.log / f"{name}.vw", run.folder / "vw.model")))
    yield from speeds(f"{name}, two cores", rows, middle(both), middle(theirs))
    bounds = (1.6, 1.3) if run.large else (None, None)
    yield Figure(f"{name}, two cores: times one core", middle(alone).seconds / middle(both).seconds, "x", bounds[0])
    yield Figure(f"{name}, two cores: times Vowpal Wabbit", middle(theirs).seconds / middle(both).seconds, "x", bounds[1])


def algorithms(run: Run) -> Iterator[Figure | Note]:
    """Algorithms with their defaults, whole processes on one core: speed, test AUC, PCOPC; and other tools beside them."""
    data, test = run.log / "train.parquet", run.log / "test.parquet"
    measure(vw.train(run.log / "train.vw", run.folder / "vw.model"))
    linear = vw_auc(run)
    yield Figure("Vowpal Wabbit, linear: test AUC", linear, "")
    ours = {}
    for written in ALGORITHMS:
        statement = ALGORITHM.format(algorithm=written, data=data)
        with cores(1):
            run.xpsql.run(statement)  # not counted: compiles what later processes find
            done = middle([run.xpsql.run(statement) for _ in range(run.rounds)])
        ours[written] = done
        yield Figure(f"{written}: one core", num_rows(data) / done.seconds, "rows/s")
        yield Figure(f"{written}: one core, CPU", num_rows(data) / done.cpu_seconds, "rows/s")
        quality = run.xpsql.qualities(test)
        yield Figure(f"{written}: test AUC", quality["auc"], "", linear)
        yield Figure(f"{written}: test PCOPC, off 1 by", abs(quality["pcopc"] - 1), "", 0.03, at_least=False)
    yield from beside(ours, num_rows(data), run.log, run.folder, run.rounds)


def network_in_torch(run: Run) -> Iterator[Figure | Note]:
    """A network of the user's in PyTorch beside PyTorch alone."""
    yield from network_beside(run.xpsql, run.log, run.folder, run.rounds)


def algorithms_on_two_cores(run: Run) -> Iterator[Figure]:
    """An algorithm on two cores against one, whole processes."""
    for written in ("fm", "xnn (dim = 16)"):
        statement = ALGORITHM.format(algorithm=written, data=run.log / "train.parquet")
        parallel = statement.replace(" AS SELECT", " WITH (workers = 2) AS SELECT")
        run.xpsql.run(statement)
        done = [run.xpsql.alternate([(1, statement), (2, parallel), (2, statement)]) for _ in range(run.rounds)]
        alone, two, default = (middle(runs).seconds for runs in zip(*done, strict=True))
        yield Figure(f"{written}, two cores, two workers: times one core", alone / two, "x", 1.6)
        yield Figure(f"{written}, two cores: times one core", alone / default, "x")


def by_cores(run: Run) -> Iterator[Figure]:
    """The same statement on 1, 2, 4, ... cores, as many as there are, in turns; workers as the defaults have them."""
    data, most = run.log / f"{'train4' if run.large else 'train'}.parquet", len(os.sched_getaffinity(0))
    counts = [1 << power for power in range(most.bit_length())]
    for written in ("xftrl", "xnn (dim = 16)"):
        statement = ALGORITHM.format(algorithm=written, data=data)
        run.xpsql.run(statement)
        rounds = [run.xpsql.alternate([(count, statement) for count in counts]) for _ in range(run.rounds)]
        done = [middle(runs) for runs in zip(*rounds, strict=True)]
        for count, one in zip(counts, done, strict=True):
            what = f"{written}, {count} {'core' if count == 1 else 'cores'}"
            yield Figure(what, num_rows(data) / one.seconds, "rows/s")
            yield Figure(f"{what}: times one core", done[0].seconds / one.seconds, "x")


def many_slots(run: Run) -> Iterator[Figure]:
    """A network over a hundred slots: the few of the test rows, and crosses of pairs of them made in SQL."""
    data = run.log / "test.parquet"
    with cores(1):
        run.xpsql.run(CROSSED.format(data=data))
        done = middle([run.xpsql.run(CROSSED.format(data=data)) for _ in range(run.rounds)])
    yield Figure("xnn, 100 slots: one core", num_rows(data) / done.seconds, "rows/s")


def crosses(run: Run) -> Iterator[Figure]:
    """A label that a cross alone tells, one core: trainings with and without it in turns, and Vowpal Wabbit's."""
    rows, data = (QUICK_ROWS if run.quick else 3 * ROWS), run.folder / "crosses.parquet"
    measure([sys.executable, "-m", "benchmarks.crosses", str(run.folder), str(rows)])
    text, model = data.with_suffix(".vw"), run.folder / "vw.model"
    done: dict[str, list[Measured]] = {"plain": [], "crossed": [], "vw, plain": [], "vw, crossed": []}
    features = {}
    with cores(1):
        for number in range(run.rounds + 1):
            for name, statement in (("plain", PLAIN), ("crossed", CROSS)):
                done[name].append(run.xpsql.run(statement.format(data=data)))
                features[name] = num_features(run.xpsql.warehouse)
            if not number:  # the first ones compile
                done = {name: [] for name in done}
                continue
            for name, interactions in (("vw, plain", ""), ("vw, crossed", VW_CROSS)):
                done[name].append(measure(vw.train(text, model, interactions)))
    cpu = {name: statistics.median(one.cpu_seconds for one in found) for name, found in done.items()}
    yield from (Figure(f"{name}: rows a CPU second", rows / seconds, "rows/s") for name, seconds in cpu.items())
    ratios = [one.cpu_seconds / other.cpu_seconds for one, other in zip(done["crossed"], done["plain"], strict=True)]
    yield Figure("with the cross, times without: CPU", statistics.median(ratios), "x", 1.4, at_least=False)
    yield Figure("with the cross: times Vowpal Wabbit, CPU", cpu["vw, crossed"] / cpu["crossed"], "x", 4)
    yield Figure("without: times Vowpal Wabbit, CPU", cpu["vw, plain"] / cpu["plain"], "x")
    new = features["crossed"] - features["plain"]
    yield Figure(f"CPU that the cross adds, each of {new:,} new rows", (cpu["crossed"] - cpu["plain"]) / new * 1e9, "ns")


def many_ids(run: Run) -> Iterator[Figure]:
    """A network with bi-interaction over 100 and 300 ids a row in batches of 100: rows/s of the process, and of its loop."""
    for ids in (100, 300):
        rows, data = (1_000 if run.quick else 4_000_000 // ids), run.folder / f"ids{ids}.parquet"
        measure([sys.executable, "-m", "benchmarks.many_ids", data, str(ids), str(rows)])
        for number in (1, 2) if len(os.sched_getaffinity(0)) > 1 else (1,):
            statement = BI_INTERACTION.format(workers=number, data=data)
            with cores(number):
                run.xpsql.run(statement)  # not counted: compiles what later processes find
                done = middle([run.xpsql.run(statement) for _ in range(run.rounds)])
                what = f"xnn, bi-interaction, {ids} ids a row, batch 100, {number} {'core' if number == 1 else 'cores'}"
                yield Figure(what, rows / done.seconds, "rows/s")
                yield Figure(f"{what}: training alone", rows / run.xpsql.stages(statement).work, "rows/s")


def prediction(run: Run) -> Iterator[Figure]:
    """ML.PREDICT of the training rows on one core; only the prediction is selected."""
    data = run.log / "train.parquet"
    rows = num_rows(data)
    with cores(1):
        run.xpsql.train(data)
        seen = [run.xpsql.stages(PREDICT.format(data=data)) for _ in range(run.rounds)]
    stage = sorted(seen, key=lambda one: one.work + one.rest)[len(seen) // 2]
    yield Figure("ML.PREDICT, one core, model loaded", rows / (stage.work + stage.rest), "rows/s", 250_000)
    yield Figure("ML.PREDICT: imports, engine, loading the model", stage.start_up, "s")
    for algorithm, most in ROW_TARGETS.items():
        with cores(1):
            lines = measure([sys.executable, "-m", "benchmarks.rows", data, run.folder / "rows", algorithm]).output.splitlines()
        for line in lines:
            value, unit, name = line.split(maxsplit=2)
            yield Figure(f"Scorer.predict, {name}", float(value), unit, most if "one row" in name else None, at_least=False)


def serving(run: Run) -> Iterator[Figure]:
    """The service: its HTTP layer alone, and latencies at constant rates through loopback."""
    seconds = "0.3" if run.quick else "3"
    of_log = [sys.executable, "-m", "benchmarks.serving", run.log / "train.parquet", run.folder / "serving", seconds]
    rows = "3000" if run.quick else "262144"
    of_features = [sys.executable, "-m", "benchmarks.served_features", run.folder / "features", seconds, rows]
    for command in (of_log, of_features):
        for line in measure(command).output.splitlines():
            value, unit, name = line.split(maxsplit=2)
            yield Figure(name, float(value), unit, SERVING_TARGETS.get(name), at_least=unit == "rows/s")


def streams(run: Run) -> Iterator[Figure]:
    """Streams learned by `xftrl` on two cores, which broker and producer share."""
    partitions, live = ("1", ["--rate", "1000", "--seconds", "12"]) if run.quick else ("60", [])
    for module, rest in (("kafka", [partitions]), ("streams", live)):
        command = [sys.executable, "-m", f"benchmarks.{module}", run.log / "train.parquet", run.folder / module, *rest]
        with cores(2):
            lines = measure(command).output.splitlines()
        for line in lines:
            value, unit, name = line.split(maxsplit=2)
            target, least = STREAM_TARGETS.get(name, (None, True))
            yield Figure(f"streams: {name}", float(value), unit, target, at_least=least)


def deltas(run: Run) -> Iterator[Figure]:
    """Versions of changes, of which each has one row of a hundred."""
    rows, versions = (QUICK_ROWS, 10) if run.quick else (STORE_ROWS, 1000 if run.large else 100)
    size = ["--rows", str(rows), "--versions", str(versions), "--folder", run.folder]
    for line in measure([sys.executable, "-m", "benchmarks.deltas", *size]).output.splitlines():
        value, unit, name = line.split("\t")
        yield Figure(f"deltas: {name}", float(value), unit, DELTA_TARGETS.get(name), at_least=False)


def store(run: Run) -> Iterator[Figure]:
    """The native store, beside hash maps of other libraries on the same keys, whose fastest is its target."""
    rows = QUICK_ROWS if run.quick else STORE_ROWS
    with cores(1):
        lines = measure([sys.executable, "-m", "benchmarks.store", "--rows", str(rows)]).output.splitlines()
    yield from held((" ".join(words), float(value), unit) for *words, value, unit in map(str.split, lines))


def held(lines: Iterable[tuple[str, float, str]]) -> Iterator[Figure]:
    """Yield the figures of the store, (name, value, unit), held to the fastest of those named `library: name`."""
    found, fastest = list(lines), dict[str, float]()
    for name, value, _ in found:
        if what := name.partition(": ")[2]:
            fastest[what] = min(value, fastest.get(what, value))
    for name, value, unit in found:
        target = OVERHEAD_BYTES if name.startswith("overhead") else fastest.get(name)
        yield Figure(f"store: {name}", value, unit, target, at_least=False)


def compact(run: Run) -> Iterator[Figure]:
    """What rows of one user share, computed once: whole processes on one core, beside the same log row by row."""
    users = 10 if run.quick else GROUPED_ROWS // 100
    for rows, targets in COMPACT_TARGETS.items():
        folder = run.folder / f"compact-{rows}"
        folder.mkdir()
        with cores(1):
            share = compact_log.write(folder, users * 100 // rows, rows)
            each, grouped, nested = compact_log.measured(folder, run.rounds, ["xnn"]).values()
        name = f"xnn, {rows} rows a user"
        yield Figure(f"{name}: row by row", users * 100 / each, "rows/s")
        yield Figure(f"{name}, grouped: times row by row", each / grouped, "x", targets.grouped)
        yield Figure(f"{name}, nested: times row by row", each / nested, "x", targets.nested)
        yield Figure(f"{name}, nested: bytes beside the flat file", share, "", targets.share, at_least=False)


def command(run: Run) -> Iterator[Figure]:
    """The command itself."""
    with cores(1):
        seconds = middle([run.xpsql.select_one() for _ in range(run.rounds)]).seconds
    yield Figure('xpsql sql "SELECT 1"', seconds, "s", 1.0, at_least=False)


def operators(run: Run) -> Iterator[Figure]:
    """What a push of 16,384 rows costs with more operators, in CPU time, and how many times that of ftrl alone."""
    with cores(1):
        lines = measure([sys.executable, "-m", "benchmarks.chains"]).output.splitlines()
    for line in lines:
        value, unit, name = line.split(maxsplit=2)
        target = CHAIN_TARGETS.get(name) if unit == "x" else None
        yield Figure(f"push: {name}{': times ftrl' if unit == 'x' else ''}", float(value), unit, target, at_least=False)


def transport(run: Run) -> Iterator[Figure]:
    """Round trips, and shards behind servers; client and servers share one core."""
    with cores(1):
        yield from round_trips()
        yield from shards(run.quick)


def checkpoints(run: Run) -> Iterator[Figure]:
    """Checkpoints: of a shard of 10M rows of 16 floats, and what they cost a training of about a minute on two cores."""
    rows, folder = QUICK_ROWS if run.quick else STORE_ROWS, run.folder / "checkpoints"
    lines = measure([sys.executable, "-m", "benchmarks.checkpoint", folder, "--rows", str(rows)]).output.splitlines()
    extra = 0.0
    for line in lines:
        value, unit, name = line.split(maxsplit=2)
        extra = float(value) if unit == "us" else extra
        target, at_least = CHECKPOINT_TARGETS.get(name, (None, True))
        yield Figure(f"checkpoint, {name}", float(value), unit, target, at_least)
    data, passes = run.log / "train.parquet", 1 if run.quick else LONG_PASSES
    # A process that runs half of the time makes a checkpoint every 10 s of its own every 20 s.
    texts = [LONG.format(passes=passes, seconds=seconds, data=data) for seconds in (0, 20)]
    done = [run.xpsql.alternate([(2, text) for text in texts]) for _ in range(run.rounds)]
    without, every = (middle(runs) for runs in zip(*done, strict=True))
    yield Figure("training of a minute: seconds", without.seconds, "s")
    share = extra * 1e-6 * (num_rows(data) * passes / LONG_BATCH) / without.cpu_seconds * 100
    yield Figure("bookkeeping without failures, part of its CPU seconds", share, "%", 2.0, at_least=False)
    yield Figure("checkpoints every 10 s: times the seconds", every.seconds / without.seconds, "x", 1.05, at_least=False)
    yield Figure("checkpoints every 10 s: times the CPU seconds", every.cpu_seconds / without.cpu_seconds, "x")


def checksums(run: Run) -> Iterator[Figure]:
    """Checksums of rows, beside reading those from memory."""
    rows, folder = QUICK_ROWS if run.quick else CHECKED_ROWS, run.folder / "checksums"
    command = [sys.executable, "-m", "benchmarks.checksums", str(rows), folder, str(run.rounds)]
    for line in measure(command).output.splitlines():
        value, unit, name = line.split(maxsplit=2)
        yield Figure(name, float(value), unit, 3.0 if unit == "%" else None, at_least=False)


def spark(run: Run) -> Iterator[Figure]:
    """Spark on this machine."""
    with cores(2):
        command = [sys.executable, "-m", "benchmarks.spark", run.log / "train.parquet", run.folder / "spark", str(run.rounds)]
        lines = measure(command).output.splitlines()
    for line in lines:
        value, unit, name = line.split(maxsplit=2)
        yield Figure(f"local[2]: {name}", float(value), unit, 0.7 if unit == "x" else None)


def solver(run: Run) -> Iterator[Figure]:
    """All examples at once, beside MLlib."""
    yield from reported([sys.executable, "-m", "benchmarks.solver", run.log / "train.parquet", run.folder / "solver"], run, 5.0)


def words(run: Run) -> Iterator[Figure]:
    """Sequences, beside gensim."""
    number = QUICK_ROWS if run.quick else SEQUENCES
    yield from reported([sys.executable, "-m", "benchmarks.words", run.folder / "words", str(number)], run, 0.7)


def towers(run: Run) -> Iterator[Figure | Note]:
    """Two towers on one core, whole processes and their loops, beside PyTorch's with the same batches."""
    rows, data = (QUICK_ROWS if run.quick else TOWER_ROWS), run.folder / "towers.parquet"
    measure([sys.executable, "-m", "benchmarks.towers", data, str(rows)])
    for batch in (256, 1024):
        statement = TOWERS.format(batch=batch, data=data)
        with cores(1):
            run.xpsql.run(statement)  # not counted: compiles what later processes find
            done = middle([run.xpsql.run(statement) for _ in range(run.rounds)])
            loop = run.xpsql.stages(statement).work
        what = f"two_tower, batches of {batch}, one core"
        yield Figure(what, rows / done.seconds, "rows/s")
        yield Figure(f"{what}: training alone", rows / loop, "rows/s")
        yield from towers_beside(f"{what}: times PyTorch", (str(data), str(batch)), done, loop, run.rounds)


def reported(command: list[str | Path], run: Run, wanted: float) -> Iterator[Figure]:
    """Run a command on one core, with the number of rounds, and yield what it prints; `wanted` is the least ratio."""
    with cores(1):
        lines = measure([*command, str(run.rounds)]).output.splitlines()
    for line in lines:
        value, unit, name = line.split(maxsplit=2)
        yield Figure(name, float(value), unit, wanted if unit == "x" else None)


def lifecycle(run: Run) -> Iterator[Figure]:
    """What admission, expiry and evaluation cost a training, in turns, by CPU seconds; and what admission saves."""
    data, seen = run.log / "train.parquet", {name: list[Measured]() for name in LIVES}
    for number in range(run.rounds + 1):  # the first compiles
        for name, clauses in LIVES.items():
            measured = run.xpsql.run(LIVING.format(clauses=clauses, data=data))
            if number:
                seen[name].append(measured)
        if not number:
            auc = {name: trained(run, clauses, data) for name, clauses in LIVES.items() if name in ("plain", "admit")}
    for name in (name for name in LIVES if name != "plain"):
        ratios = [one.cpu_seconds / plain.cpu_seconds for one, plain in zip(seen[name], seen["plain"], strict=True)]
        bound = 1.1 if name == "evaluate" else 1.2
        yield Figure(f"{name}: CPU seconds, times those of plain", statistics.median(ratios), "x", bound, at_least=False)
    yield Figure("admit (min_count = 5): rows, part of plain", auc["admit"][1] / auc["plain"][1], "", 0.5, at_least=False)
    yield Figure("admit (min_count = 5): test AUC", auc["admit"][0], "", auc["plain"][0] - 0.002)


def trained(run: Run, clauses: str, data: Path) -> tuple[float, int]:
    """Return the test AUC and the rows of a training."""
    run.xpsql.run(LIVING.format(clauses=clauses, data=data))
    return run.xpsql.evaluate(run.log / "test.parquet"), num_features(run.xpsql.warehouse)


GROUPS: dict[str, Callable[[Run], Iterator[Figure] | Iterator[Figure | Note]]] = {
    "training": training,
    "two_cores": two_cores,
    "algorithms": algorithms,
    "network_in_torch": network_in_torch,
    "algorithms_on_two_cores": algorithms_on_two_cores,
    "cores": by_cores,
    "many_slots": many_slots,
    "crosses": crosses,
    "many_ids": many_ids,
    "prediction": prediction,
    "serving": serving,
    "streams": streams,
    "deltas": deltas,
    "store": store,
    "compact": compact,
    "command": command,
    "operators": operators,
    "lifecycle": lifecycle,
    "transport": transport,
    "checkpoints": checkpoints,
    "checksums": checksums,
    "spark": spark,
    "solver": solver,
    "words": words,
    "towers": towers,
}


TWO_CORES = ("two_cores", "algorithms_on_two_cores", "streams", "checkpoints", "spark")


def pairs(run: Run, name: str) -> tuple[Measured, Measured]:
    """Run both trainings in turns; a first run of ours, not counted, compiles what later processes find."""
    data, model = run.log / name, run.folder / "vw.model"
    run.xpsql.train(data.with_suffix(".parquet"))
    ours, theirs = [], []
    for _ in range(run.rounds):
        ours.append(run.xpsql.train(data.with_suffix(".parquet")))
        theirs.append(measure(vw.train(data.with_suffix(".vw"), model)))
    return middle(ours), middle(theirs)


def speeds(what: str, rows: int, ours: Measured, theirs: Measured) -> Iterator[Figure]:
    for name, one in (("xpsql", ours), ("Vowpal Wabbit", theirs)):
        yield Figure(f"{what}: {name}", rows / one.seconds, "rows/s")
        yield Figure(f"{what}: {name}, CPU", one.cpu_seconds, "s")


def qualities(run: Run, name: str) -> Iterator[Figure]:
    """Test AUC of both, of the models that the last pair left."""
    theirs = vw_auc(run)
    yield Figure(f"{name}: test AUC, Vowpal Wabbit", theirs, "")
    yield Figure(f"{name}: test AUC, xpsql", run.xpsql.evaluate(run.log / "test.parquet"), "", theirs - 0.001)


def vw_auc(run: Run) -> float:
    """Return the test AUC of the model that Vowpal Wabbit left."""
    predictions = run.folder / "vw.predictions"
    measure(vw.score(run.log / "test.vw", run.folder / "vw.model", predictions))
    return float(measure([sys.executable, "-m", "benchmarks.auc", run.log / "test.parquet", predictions]).output)


def memory(name: str, ours: Measured, features: int) -> Iterator[Figure]:
    yield Figure(f"{name}: peak memory", ours.peak_bytes / 2**20, "MB")
    above = max(0, ours.peak_bytes - CONSTANT_BYTES) / features
    yield Figure(f"{name}: peak memory above 600 MB, per feature", above, "bytes", 150, at_least=False)


def stages(name: str, seen: Stages) -> Iterator[Figure]:
    yield Figure(f"{name}: start-up (imports, engine {seen.open:.2f} s, compiled programs)", seen.start_up, "s")
    yield Figure(f"{name}: training", seen.work, "s")
    yield Figure(f"{name}: commit", seen.save + seen.rest, "s")


def num_rows(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def num_features(warehouse: Path) -> int:
    from xpsql.warehouse.models import Models

    return int(Models(warehouse).version("ctr").manifest.rows)


def made_log(folder: Path, quick: bool, large: bool) -> Path:
    """Make a log in a process of its own, whose memory does not count as that of those measured."""
    sizes = (QUICK_ROWS, QUICK_ROWS // 4) if quick else (ROWS, ROWS // 5)
    command = [sys.executable, "-m", "benchmarks.log", str(folder), "--train", str(sizes[0]), "--test", str(sizes[1])]
    measure([*command, *(["--train4", str(LARGE_ROWS)] if large else [])])
    return folder


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few rows, once, no targets: shows that the benchmark works")
    size.add_argument("--large", action="store_true", help="4M rows too")
    parser.add_argument("--log", type=Path, help="a log made before")
    parser.add_argument("--rounds", type=int, default=3, help="runs whose median counts")
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the groups asked for and print their figures as they come."""
    given = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="xpsql-bench-") as name:
        folder = Path(name)
        log = given.log.absolute() if given.log else made_log(folder / "log", given.quick, given.large)
        run = Run(log, folder, 1 if given.quick else given.rounds, given.quick, given.large)
        for group in given.only:
            if group in TWO_CORES and len(os.sched_getaffinity(0)) < 2:
                print(f"\n{group}: this process may use one core only; nothing measured.", flush=True)
                continue
            print(heading(group), flush=True)
            for figure in GROUPS[group](run):
                shown = figure._replace(target=None) if given.quick and isinstance(figure, Figure) else figure
                print(shown.line(), flush=True)


if __name__ == "__main__":
    main()
