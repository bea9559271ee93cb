"""What a booster brings a small network: python -m benchmarks.booster FOLDER [SEEDS [HINT]].

FOLDER has `train.parquet` and `test.parquet` of `python -m benchmarks.log`. Test AUC after one pass of `xnn (hidden = (8))`, of
the same beside a booster, and of the booster's network alone, and what part of their difference the small one recovers. Then
CPU seconds of ML.PREDICT of all rows to learn from by the small network, with a booster in its version and without, in turns.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

import xpsql
from benchmarks.auc import auc
from xpsql.platform.progress import SilentReporter

LARGE = "(256, 128)"
TURNS = 8


def cpu_seconds() -> float:
    """Return those of this process and of those that it has started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main(folder: Path, seeds: int, hint: float) -> None:
    names = {
        "light": "xnn (hidden = (8))",
        "boosted": f"xnn (hidden = (8), booster = {LARGE}, hint = {hint})",
        "large": f"xnn (hidden = {LARGE})",
    }
    with tempfile.TemporaryDirectory() as temporary, xpsql.connect(temporary, reporter=SilentReporter()) as session:
        for name in ("train", "test"):
            session.sql(f"CREATE VIEW {name} AS SELECT * FROM parquet.`{folder / name}.parquet`")
        found = []
        for seed in range(1, seeds + 1):
            runs = []
            for name, using in names.items():
                made = f"USING {using} LABEL label IGNORE (ts) WITH (workers = 1, seed = {seed}) AS SELECT * FROM train"
                session.sql(f"TRAIN OR REPLACE MODEL {name} {made}")
                scored = session.sql(f"SELECT label, predicted_label FROM ML.PREDICT(MODEL {name}, TABLE test)").arrow()
                runs.append(auc(scored["label"].to_numpy() == 1, scored["predicted_label"].to_numpy().astype(np.float64)))
            found.append(runs)
            print(f"seed {seed}: " + ", ".join(f"{name} {run:.4f}" for name, run in zip(names, runs, strict=True)), flush=True)
        light, boosted, large = np.array(found).T
        print(f"recovered: {(boosted - light).mean() / (large - light).mean():.2f} of {(large - light).mean():.4f}")
        seconds: dict[str, list[float]] = {"light": [], "boosted": []}
        for turn in range(TURNS + 1):
            for name in list(seconds)[:: 1 if turn % 2 else -1]:
                began = cpu_seconds()
                session.sql(f"SELECT avg(predicted_label) AS mean FROM ML.PREDICT(MODEL {name}, TABLE train)").arrow()
                seconds[name].append(cpu_seconds() - began)
        of = {name: np.array(each[1:]) for name, each in seconds.items()}
        median = np.median(of["boosted"] / of["light"])
        print(f"ML.PREDICT: {np.median(of['light']):.2f} CPU seconds, with a booster in the version {median:.3f} times as many")


if __name__ == "__main__":
    folder, *rest = sys.argv[1:]
    main(Path(folder), int(rest[0]) if rest else 5, float(rest[1]) if rest[1:] else 0.3)
