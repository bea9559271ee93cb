"""Train with one option changed, one pass, on published logs and a made one, and print test AUC as a table.

    python -m benchmarks.ablation FOLDER [LOG ...]

FOLDER is described in benchmarks/real_logs.py and benchmarks/interests.py; without names, all logs are learned from. Logs below
100,000 rows have the mean of seeds 0 to 2, others seed 0.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks import log
from benchmarks.interests import kuairand
from benchmarks.real_logs import LOGS, Split
from xpsql import Session, connect
from xpsql.platform.progress import SilentReporter

SHORT, SEEDS = 100_000, 3
MADE_ROWS = 1_000_000
CHANGES = {
    "xnn": ("xnn", ""),
    "`interaction = 'bi'`": ("xnn (interaction = 'bi')", ""),
    "`'pairs'`": ("xnn (interaction = 'pairs')", ""),
    "`normalise = 'layer_norm'`": ("xnn (normalise = 'layer_norm')", ""),
    "`long_dim = 8`": ("xnn (long_dim = 8)", ""),
    "`dim = 16`": ("xnn (dim = 16)", ""),
    "`gradient_average`": ("xnn", "OPERATORS (gradient_average)"),
    "`auto_session`": ("xnn", "OPERATORS (auto_session)"),
    "xftrl": ("xftrl", ""),
    "`l2 = 1`": ("xftrl (l2 = 1)", ""),
    "xftrl, `auto_session`": ("xftrl", "OPERATORS (auto_session)"),
}


def clicks(folder: Path) -> Split:
    """Return the impressions of KuaiRand without what was clicked before."""
    return Split(*(table.drop_columns(["seen"]) for table in kuairand(folder)))


def made(folder: Path) -> Split:
    """Return the made log of `make bench`; the folder is not read."""
    with tempfile.TemporaryDirectory() as place:
        log.make(Path(place), [("train", MADE_ROWS), ("test", MADE_ROWS // 5)], seed=7)
        return Split(*(pq.read_table(Path(place) / f"{name}.parquet").drop_columns(["ts"]) for name in ("train", "test")))


EVERY: Mapping[str, Callable[[Path], Split]] = {**LOGS, "kuairand": clicks, "made": made}


def auc_of(session: Session, using: str, operators: str, folder: Path, seed: int) -> float:
    train, test = folder / "train.parquet", folder / "test.parquet"
    settings = f"WITH (workers = 1, seed = {seed})"
    session.sql(f"TRAIN OR REPLACE MODEL m USING {using} LABEL label {operators} {settings} AS SELECT * FROM parquet.`{train}`")
    ((auc,),) = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, TABLE parquet.`{test}`)").fetchall()
    return float(auc)


def line(name: str, split: Split) -> str:
    """Return a log's line of the table."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, seeds = Path(temporary), range(SEEDS if len(split.train) < SHORT else 1)
        pq.write_table(split.train, folder / "train.parquet")
        pq.write_table(split.test, folder / "test.parquet")
        with connect(folder / "warehouse", reporter=SilentReporter()) as session:
            found = (statistics.mean(auc_of(session, *change, folder, seed) for seed in seeds) for change in CHANGES.values())
            return f"| {name}, {len(split.train):,} | {' | '.join(f'{auc:.4f}' for auc in found)} |"


def main(folder: str, *names: str) -> None:
    """Print the table."""
    print(f"| log, rows | {' | '.join(CHANGES)} |\n|{'---|' * (1 + len(CHANGES))}")
    for name in names or EVERY:
        print(line(name, EVERY[name](Path(folder))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
