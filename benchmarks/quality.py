"""Train every algorithm with its defaults on small published logs, one pass, and print test AUC and PCOPC as a table.

    python -m benchmarks.quality FOLDER [LOG ...]

FOLDER is described in benchmarks/real_logs.py; without names, all logs are learned from. The yardstick is a logistic regression
whose learning rate is the best of four on the test rows themselves.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.real_logs import LOGS, Split
from xpsql import Session, connect
from xpsql.platform.progress import SilentReporter

DEFAULTS = ("xftrl", "fm", "ffm", "xnn")
RATES = (0.05, 0.1, 0.3, 1.0)


def measured(session: Session, algorithm: str, folder: Path) -> tuple[float, float]:
    """Train and return test AUC and PCOPC."""
    session.sql(f"TRAIN OR REPLACE MODEL m USING {algorithm} AS SELECT * FROM parquet.`{folder / 'train.parquet'}`")
    query = f"SELECT auc, pcopc FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{folder / 'test.parquet'}`))"
    (row,) = session.sql(query).arrow().to_pylist()
    return row["auc"], row["pcopc"]


def lines(name: str, split: Split) -> list[str]:
    """Return a log's lines of the table."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pq.write_table(split.train, folder / "train.parquet")
        pq.write_table(split.test, folder / "test.parquet")
        with connect(folder / "warehouse", reporter=SilentReporter()) as session:
            tuned = max(measured(session, f"xftrl (alpha = {rate})", folder) for rate in RATES)
            found = {"logistic regression, tuned": tuned, **{a: measured(session, a, folder) for a in DEFAULTS}}
    return [f"| {name} | {what} | {auc:.4f} | {pcopc:.3f} |" for what, (auc, pcopc) in found.items()]


def main(folder: str, *names: str) -> None:
    """Print the table."""
    print("| log | algorithm | test AUC | PCOPC |\n|---|---|---|---|")
    for name in names or LOGS:
        print("\n".join(lines(name, LOGS[name](Path(folder)))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
