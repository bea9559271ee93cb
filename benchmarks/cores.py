"""Rows a second on 1, 2, 4, ... cores, as many as the machine has: whole processes in turns, threads and workers by default."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchmarks import Figure, Run, ratio
from benchmarks.process import TRAIN, Measured, Xpsql, cores, num_cores, num_rows, seconds, speed

ALGORITHMS = ("xftrl", "fm", "xnn (dim = 16)")
TARGETS: dict[str, str] = {}


def figures(run: Run) -> Iterator[Figure]:
    data, counts = run.log / "train.parquet", [1 << power for power in range(num_cores().bit_length())]
    for using in ALGORITHMS[: run.size(1, 3)]:
        statement = TRAIN.format(using=using, settings="", data=data)
        found: dict[int, list[Measured]] = {count: [] for count in counts}
        for turn in range(run.rounds + 1):
            for count, runs in found.items():
                with cores(count):
                    done = Xpsql(run.folder).run(statement)
                if turn:  # the first compiles
                    runs.append(done)
        for count, runs in found.items():
            what = f"{using}, {count} {'core' if count == 1 else 'cores'}"
            yield speed(what, num_rows(data), runs)
            yield ratio(f"{what}: times one core", seconds(found[1]), seconds(runs))
            yield Figure(f"{what}: busy", median(one.cpu / one.seconds for one in runs), "cores")
