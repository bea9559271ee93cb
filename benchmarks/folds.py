"""Test algorithms on each tenth of the second half of a log, learned from all rows before it, and print what differs.

    python -m benchmarks.folds FOLDER LOG [USING ...]

FOLDER is described in benchmarks/real_logs.py and benchmarks/interests.py; LOG is one of those, or `histories`: KuaiRand with
what the user clicked before; or `tags`, a made log whose labels depend on a sum over tags. USING is an algorithm with its
options. A line has the mean test AUC, and how far it is from that of the first algorithm, with the standard error over tenths.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.ablation import EVERY, auc_of
from benchmarks.interests import kuairand
from benchmarks.real_logs import Split
from xpsql import Session, connect
from xpsql.platform.progress import SilentReporter

ALGORITHMS = ("owlqn", "xftrl", "fm", "ffm", "xnn")
TENTHS = range(5, 10)
ROWS, TAGS, USERS = 30_000, 400, 500


def tags(folder: Path) -> Split:
    """Return a log of a user and one to ten tags, whose effects on the log odds add up; the folder is not read."""
    random = np.random.default_rng(3)
    counts, weights, of_users = random.integers(1, 11, ROWS), random.normal(0, 0.5, TAGS), random.normal(0, 1, USERS)
    own = [random.choice(TAGS, count, replace=False) for count in counts]
    user = random.integers(0, USERS, ROWS)
    score = np.array([weights[ids].sum() for ids in own]) + of_users[user]
    label = (random.random(ROWS) < 1 / (1 + np.exp(-score))).astype(np.int8)
    table = pa.table({"label": label, "user": user, "tags": pa.array([ids.tolist() for ids in own])})
    return Split(table[: ROWS * 4 // 5], table[ROWS * 4 // 5 :])


LOGS: Mapping[str, Callable[[Path], Split]] = {**EVERY, "histories": lambda folder: Split(*kuairand(folder)), "tags": tags}


def tested(session: Session, using: str, rows: pa.Table, folder: Path) -> list[float]:
    """Return the test AUC of an algorithm on each tenth."""
    found = []
    for tenth in TENTHS:
        first, last = (rows.num_rows * k // 10 for k in (tenth, tenth + 1))
        pq.write_table(rows[:first], folder / "train.parquet")
        pq.write_table(rows[first:last], folder / "test.parquet")
        found.append(auc_of(session, using, "", folder, 0))
    return found


def main(folder: str, log: str, *algorithms: str) -> None:
    """Print the table."""
    rows = pa.concat_tables(LOGS[log](Path(folder)), promote_options="permissive")
    first: list[float] = []
    print("| algorithm | test AUC | beside the first | standard error |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place, connect(Path(place) / "warehouse", reporter=SilentReporter()) as session:
        for using in algorithms or ALGORITHMS:
            found = tested(session, using, rows, Path(place))
            first = first or found
            beside = [own - other for own, other in zip(found, first, strict=True)]
            error = statistics.stdev(beside) / len(beside) ** 0.5
            print(f"| `{using}` | {statistics.mean(found):.4f} | {statistics.mean(beside):+.4f} | {error:.4f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
