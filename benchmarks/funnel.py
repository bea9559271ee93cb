"""A conversion rate for all rows, or for those that clicked: python -m benchmarks.funnel FOLDER [SEEDS].

FOLDER has `hillstrom_email/hillstrom.csv.gz`, 64,000 people who were sent an e-mail or none, whether they visited the shop, and
whether they bought; nobody bought without a visit. A random half is learned from, the other half is predicted: by `multi_task
(chain = true)`, which learns from all rows, and by a network for visits times one for purchases that learns from visits alone.
PCOPC is the sum of predicted purchases over that of purchases, some 290 in a half, whose standard error is 0.06.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

import xpsql
from benchmarks.auc import auc
from xpsql.platform.progress import SilentReporter


def halves(folder: Path, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return the rows to learn from and to test on, the features as categories but for the amount spent."""
    log = csv.read_csv(folder / "hillstrom_email" / "hillstrom.csv.gz")
    names = ("recency", "history_segment", "mens", "womens", "zip_code", "newbie", "channel", "segment")
    columns = {name: log[name].cast(pa.string()) for name in names}
    table = pa.table(
        {**columns, "history": np.log1p(log["history"].to_numpy()), "visit": log["visit"], "buy": log["conversion"]}
    )
    first = np.random.default_rng(seed).random(len(table)) < 0.5
    return table.filter(pa.array(first)), table.filter(pa.array(~first))


def main(folder: Path, seeds: int) -> None:
    found: dict[str, list[tuple[float, float]]] = {"chain": [], "visits alone": []}
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory() as temporary, xpsql.connect(temporary, reporter=SilentReporter()) as session:
            for name, table in zip(("log", "test"), halves(folder, seed), strict=True):
                pq.write_table(table, path := Path(temporary) / f"{name}.parquet")
                session.sql(f"CREATE VIEW {name} AS SELECT * FROM parquet.`{path}`")
            with_seed = f"WITH (seed = {seed}, workers = 1)"
            session.sql(f"TRAIN MODEL both USING multi_task (chain = true) LABEL visit, buy {with_seed} AS SELECT * FROM log")
            session.sql(f"TRAIN MODEL visits USING xnn LABEL visit IGNORE (buy) {with_seed} AS SELECT * FROM log")
            session.sql(f"TRAIN MODEL buys USING xnn LABEL buy IGNORE (visit) {with_seed} AS SELECT * FROM log WHERE visit = 1")
            chained, visits, buys = (
                session.sql(f"SELECT * FROM ML.PREDICT(MODEL {name}, TABLE test)").arrow()
                for name in ("both", "visits", "buys")
            )
            truth = chained["buy"].to_numpy()
            product = visits["predicted_visit"].to_numpy() * buys["predicted_buy"].to_numpy()
            for name, scores in (("chain", chained["predicted_buy"].to_numpy()), ("visits alone", product)):
                found[name].append((float(scores.sum() / truth.sum()), auc(truth == 1, scores.astype(np.float64))))
    for name, runs in found.items():
        (pcopc, area), (spread, _) = np.mean(runs, axis=0), np.std(runs, axis=0)
        print(f"{name:13} PCOPC {pcopc:.3f} +- {spread:.3f}, AUC {area:.4f}, {len(runs)} halves")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
