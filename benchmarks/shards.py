"""Measure what trainings on Spark cost with 1, 2 and 4 shards: the CPU of all Python processes per example, in turns; the
ratios are medians of the rounds' ratios.

python -m benchmarks.shards LOG.parquet WAREHOUSE ROUNDS
"""

from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path

from benchmarks.transport import cpu_seconds

MASTER = "local[6]"
SHARDS = (1, 2, 4)
STATEMENT = (
    "TRAIN OR REPLACE MODEL shards USING xftrl IGNORE (ts) WITH (shards = {shards}, workers = 1, checkpoint_seconds = 0) "
    "AS SELECT * FROM parquet.`{data}`"
)


def spent() -> dict[int, float]:
    """Return the CPU seconds so far of this process and those below it, without Java's."""
    parents, seconds = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            parents[int(folder.name)] = int(rest.split()[1])
            if name != "java":
                seconds[int(folder.name)] = cpu_seconds(int(folder.name))
        except OSError:  # it has ended
            continue
    ours = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {process: used for process, used in seconds.items() if process in ours}


def main() -> None:
    import pyarrow.parquet as pq

    import xpsql

    data, warehouse, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    rows, seen = pq.read_metadata(data).num_rows, {shards: [] for shards in SHARDS}
    with xpsql.connect(warehouse, "spark", master=MASTER) as session:
        for turn in range(rounds + 1):
            for shards, found in seen.items():
                before = spent()
                session.sql(STATEMENT.format(shards=shards, data=data))
                if turn:  # the first starts processes
                    found.append(sum(used - before.get(process, 0.0) for process, used in spent().items()))
    for shards, found in seen.items():
        times = statistics.median(each / alone for each, alone in zip(found, seen[1], strict=True))
        print(f"{shards} shards: {statistics.median(found) / rows * 1e6:.3f} us of CPU per example, {times:.3f} times one")


if __name__ == "__main__":
    main()
