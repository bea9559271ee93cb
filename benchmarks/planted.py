"""Train on a log whose labels need interactions that only some algorithms can learn, and print test AUC as a table.

python -m benchmarks.planted
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xpsql import Session, connect
from xpsql.platform.progress import SilentReporter

ROWS, TESTED, VALUES = 20_000, 5_000, 12
LABELS = ("pair", "fields", "triple")
ALGORITHMS = ("xftrl", "fm", "ffm", "fm (dim = 2)", "ffm (dim = 2)", "xnn", "deepfm", "dcn", "wide_deep")


def planted() -> pa.Table:
    """Make examples of three columns, whose labels need: one pair that two elements explain; three pairs that contradict each
    other within one vector of a value; all three columns at once, none of whose pairs tells anything."""
    random, effects, n = np.random.default_rng(3), np.random.default_rng(1), ROWS + TESTED
    a, b, c = (random.integers(0, VALUES, n) for _ in range(3))
    ab, ac, bc = (effects.choice([-1.0, 1.0], (VALUES, VALUES)) for _ in range(3))
    of_a, of_b = effects.normal(size=(VALUES, 2)), effects.normal(size=(VALUES, 2))
    scores = {
        "pair": 2 * (of_a[a] * of_b[b]).sum(axis=1),
        "fields": 1.5 * (ab[a, b] + ac[a, c] + bc[b, c]),
        "triple": 3.0 * (2 * ((a + b + c) % 2) - 1),
    }
    labels = {name: (random.random(n) < 1 / (1 + np.exp(-score))).astype(np.int32) for name, score in scores.items()}
    return pa.table(
        labels | {name: [f"{name}{value}" for value in values] for name, values in zip("abc", (a, b, c), strict=True)}
    )


def auc_of(session: Session, folder: Path, algorithm: str, label: str) -> float:
    """Return the test AUC of an algorithm after one pass over a label."""
    train, test = (f"parquet.`{folder / name}.parquet`" for name in ("train", "test"))
    ignored = ", ".join(name for name in LABELS if name != label)
    statement = f"LABEL {label} IGNORE ({ignored}) WITH (workers = 1) AS SELECT * FROM {train}"
    session.sql(f"TRAIN OR REPLACE MODEL m USING {algorithm} {statement}")
    ((auc,),) = session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, TABLE {test})").fetchall()
    return float(auc)


def main() -> None:
    print(f"| label | {' | '.join(ALGORITHMS)} |\n|{'---|' * (1 + len(ALGORITHMS))}")
    with tempfile.TemporaryDirectory() as temporary:
        folder, table = Path(temporary), planted()
        pq.write_table(table.slice(0, ROWS), folder / "train.parquet")
        pq.write_table(table.slice(ROWS), folder / "test.parquet")
        with connect(folder / "warehouse", reporter=SilentReporter()) as session:
            for label in LABELS:
                found = (f"{auc_of(session, folder, algorithm, label):.3f}" for algorithm in ALGORITHMS)
                print(f"| {label} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
