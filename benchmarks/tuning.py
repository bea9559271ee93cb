"""What TUNE costs, in CPU seconds of one training, and how good the candidate is that it finds.

    python -m benchmarks.tuning TRAIN TEST [--each]

TRAIN and TEST are Parquet files of benchmarks.log. --each trains all 16 candidates, each alone, too. Each way runs twice and
the second is reported: the first compiles.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import xpsql
from xpsql.platform.hparams import HparamRange
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.tuning.space import Dimension, Tune, chosen

TRIALS = 16
SPACE = "alpha = HPARAM_RANGE(0.005, 1), l2 = HPARAM_RANGE(0, 2)"
POINTS = chosen(
    Tune("auc", TRIALS, "random"),
    {"alpha": Dimension(HparamRange(0.005, 1), False), "l2": Dimension(HparamRange(0, 2), False)},
    7,
)


def cpu(session: xpsql.Session, statement: str) -> float:
    """Run a statement and return its CPU seconds, of all threads."""
    before = os.times()
    session.sql(statement)
    after = os.times()
    return after.user + after.system - before.user - before.system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--each", action="store_true")
    given = parser.parse_args()
    query = f"AS SELECT * FROM parquet.`{Path(given.train).absolute()}`"
    ways = {"one": ("alpha = 0.1", "")}
    ways |= {f"16, {m}": (SPACE, f"TUNE BY auc TRIALS {TRIALS} METHOD {m}") for m in ("random", "halving")}
    with tempfile.TemporaryDirectory() as folder, xpsql.connect(folder, "duckdb", SilentReporter()) as session:

        def auc() -> float:
            data = f"(SELECT * FROM parquet.`{Path(given.test).absolute()}`)"
            return float(session.sql(f"SELECT auc FROM ML.EVALUATE(MODEL m, {data})").arrow()["auc"][0].as_py())

        one = 0.0
        for name, (options, tune) in ways.items():
            spent = [
                cpu(session, f"TRAIN OR REPLACE MODEL m USING xftrl ({options}) TIME ts {tune} {query}") for _ in range(2)
            ][1]
            one = one or spent
            print(f"{name:12} {spent:8.1f} CPU s  {spent / one:5.2f} times one   AUC {auc():.5f}", flush=True)
        found = []
        for point in POINTS if given.each else ():
            options = ", ".join(f"{n} = {v}" for n, v in point.items())
            session.sql(f"TRAIN OR REPLACE MODEL m USING xftrl ({options}) TIME ts {query}")
            found.append(auc())
        if found:
            print(f"best of {TRIALS}   AUC {max(found):.5f}, worst {min(found):.5f}")


if __name__ == "__main__":
    main()
