"""A program on a cluster: `predictor MASTER WAREHOUSE LOG MODEL ...`; predicts with one model after the other.

It prints, as JSON, for each the sum of its predictions and the most memory that a Python process of Spark has had by then.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import xpsql
from tests.clusters.program import SETTINGS, parent
from xpsql.platform.progress import SilentReporter
from xpsql.platform.scoring import prediction
from xpsql.platform.training import parallelism


def descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        pid = parent(pid)
    return False


def most_memory() -> int:
    """Return the largest peak of resident memory among the Python processes that Spark has started."""
    most = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark" in (folder / "cmdline").read_bytes() and descends(int(folder.name), os.getpid()):
                lines = (folder / "status").read_text(encoding="utf-8").splitlines()
                most = max(most, *(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")))
        except OSError:
            continue  # it has ended meanwhile
    return most


def main(master: str, warehouse: str, log: str, *models: str) -> None:
    prediction.SMALL_ROWS, parallelism.SLOTS_PER_SHARD = 0, 2
    found = []
    with xpsql.connect(warehouse, engine="spark", master=master, conf=SETTINGS, reporter=SilentReporter()) as session:
        for model in models:
            query = f"SELECT sum(predicted_label) AS total FROM ML.PREDICT(MODEL {model}, (SELECT * FROM parquet.`{log}`))"
            total = session.sql(query).arrow()["total"][0].as_py()
            found.append({"total": total, "most_bytes": most_memory()})
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
