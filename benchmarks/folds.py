"""Test algorithms on each tenth of the second half of a log, learned from all rows before it, and print what differs.

    python -m benchmarks.folds FOLDER LOG[/MOST] [USING ...]

FOLDER is described in benchmarks/real_logs.py and benchmarks/interests.py; LOG is one of those, or `histories`: KuaiRand with
what the user clicked before; or `tags` or `words`, made logs whose labels depend on a sum over tags, or over many words. USING
is an algorithm with its options. A line has the mean test AUC, and how far it is from that of the first algorithm, with the
standard error over tenths. With MOST, arrays become maps in which values weigh as by `root`, and longer arrays than that as by
`mean`, times the root of MOST; learn from these with `pooling = 'sum'`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.ablation import EVERY, auc_of
from benchmarks.interests import kuairand
from benchmarks.real_logs import Split
from xpsql import Session, connect
from xpsql.platform.progress import SilentReporter

Floats = NDArray[np.float64]
ALGORITHMS = ("owlqn", "xftrl", "fm", "ffm", "xnn")
TENTHS = range(5, 10)
ROWS, TAGS, WORDS, USERS = 30_000, 400, 2_000, 500


def tags(folder: Path) -> Split:
    """Return a log of a user and one to ten tags, whose effects on the log odds add up; the folder is not read."""
    random = np.random.default_rng(3)
    counts, weights, of_users = random.integers(1, 11, ROWS), random.normal(0, 0.5, TAGS), random.normal(0, 1, USERS)
    own = [random.choice(TAGS, count, replace=False) for count in counts]
    return labelled(random, "tags", own, np.array([weights[ids].sum() for ids in own]), of_users)


def words(folder: Path) -> Split:
    """Return a log of a user and the different ones of 5 to 59 words, drawn by Zipf's law, whose effects add up, too."""
    random, odds = np.random.default_rng(5), np.arange(1, WORDS + 1) ** -0.8
    counts, weights, of_users = random.integers(5, 60, ROWS), random.normal(0, 0.3, WORDS), random.normal(0, 1, USERS)
    own = [np.unique(random.choice(WORDS, count, p=odds / odds.sum())) for count in counts]
    score = np.array([weights[ids].sum() for ids in own])
    return labelled(random, "words", own, score - score.mean(), of_users)


def labelled(random: np.random.Generator, name: str, own: list[NDArray[np.int64]], score: Floats, of_users: Floats) -> Split:
    """Return a log of users and arrays, by the log odds that arrays give, to which those of users are added."""
    user = random.integers(0, USERS, ROWS)
    label = (random.random(ROWS) < 1 / (1 + np.exp(-score - of_users[user]))).astype(np.int8)
    table = pa.table({"label": label, "user": user, name: pa.array([ids.tolist() for ids in own])})
    return Split(table[: ROWS * 4 // 5], table[ROWS * 4 // 5 :])


def shared(table: pa.Table, most: int) -> pa.Table:
    """Return rows whose arrays are maps from values to what they weigh: as by `root` up to `most` values."""
    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            own = table[field.name].combine_chunks()
            count = pc.list_value_length(own).fill_null(0).to_numpy()
            share = np.sqrt(np.minimum(count, most)) / np.maximum(count, 1)
            ends = pa.array(np.append(0, np.cumsum(count)).astype(np.int32))
            found = pa.MapArray.from_arrays(ends, own.flatten(), pa.array(np.repeat(share, count).astype(np.float32)))
            table = table.set_column(place, field.name, found)
    return table


OWN = {"histories": lambda folder: Split(*kuairand(folder)), "tags": tags, "words": words}
LOGS: Mapping[str, Callable[[Path], Split]] = {**EVERY, **OWN}


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
    name, _, most = log.partition("/")
    rows = pa.concat_tables(LOGS[name](Path(folder)), promote_options="permissive")
    rows = shared(rows, int(most)) if most else rows
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
