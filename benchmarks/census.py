"""Two labels of a census by one network or one each: python -m benchmarks.census FILE [SEEDS [PASSES]].

FILE is UCI's Census-Income (KDD), `census-income.data.gz` or `census-income.test.gz`: 41 columns of each person and whether the
income is above 50,000 dollars. The labels are that and "never married", the first pair of tasks of the paper of MMoE (Ma et
al., KDD 2018); neither is an input, nor is the weight of a person. A random half is learned from and the other half is
predicted, another one with each seed. Prints the test AUC of both labels, means over the seeds, and the paired differences from
the best network for that label alone.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

import xpsql
from benchmarks.auc import auc
from xpsql.platform.progress import SilentReporter

LABELS = ("income", "single")
NUMBERS = (0, 5, 16, 17, 18, 30, 39)  # age, wage per hour, gains, losses, dividends, persons employed by, weeks worked
MARITAL, WEIGHT, INCOME = 7, 24, 41
SMALL = "experts = 1, expert_hidden = (32), hidden = (32), gate_dropout = 0"
ALONE = ("xnn", "xnn (hidden = (64, 32, 128, 64))", "xnn (hidden = (32, 32))")
TOGETHER = (
    "multi_task",
    "multi_task (base = mmoe)",
    "multi_task (base = ple)",
    f"multi_task (base = ple, {SMALL})",
)


def people(file: Path) -> pa.Table:
    """Return what is known of each person, categories as strings, and both labels."""
    with gzip.open(file) as lines:
        table = csv.read_csv(lines, csv.ReadOptions(autogenerate_column_names=True))
    columns = {}
    for at, values in enumerate(table.columns):
        if at in NUMBERS:
            columns[f"c{at}"] = values.cast(pa.float64())
        elif at not in (MARITAL, WEIGHT, INCOME):
            columns[f"c{at}"] = values.cast(pa.string())
    said = ((INCOME, "50000+."), (MARITAL, "Never married"))
    labels = {
        label: np.char.strip(table[at].to_numpy().astype(str)) == word for label, (at, word) in zip(LABELS, said, strict=True)
    }
    return pa.table({**columns, **{label: pa.array(of.astype(np.int8)) for label, of in labels.items()}})


def aucs(session: xpsql.Session, using: str, labels: tuple[str, ...], seed: int, passes: int) -> list[float]:
    """Train on the view `log`; return the AUC of each label on the view `test`."""
    others = [label for label in LABELS if label not in labels]
    ignored = f"IGNORE ({', '.join(others)})" if others else ""
    with_seed = f"WITH (seed = {seed}, passes = {passes}, workers = 1)"
    session.sql(f"TRAIN OR REPLACE MODEL m USING {using} LABEL {', '.join(labels)} {ignored} {with_seed} AS SELECT * FROM log")
    scored = session.sql("SELECT * FROM ML.PREDICT(MODEL m, TABLE test)").arrow()
    return [auc(scored[label].to_numpy() == 1, scored[f"predicted_{label}"].to_numpy().astype(np.float64)) for label in labels]


def main(file: Path, seeds: int, passes: int) -> None:
    table, found = people(file), defaultdict[str, list[list[float]]](list)

    def line(using: str, areas: NDArray[np.float64]) -> str:
        return f"{using}: " + ", ".join(f"{label} {area:.4f}" for label, area in zip(LABELS, areas, strict=True))

    for seed in range(1, seeds + 1):
        first = np.random.default_rng(seed).random(len(table)) < 0.5
        with tempfile.TemporaryDirectory() as temporary, xpsql.connect(temporary, reporter=SilentReporter()) as session:
            for name, rows in (("log", first), ("test", ~first)):
                pq.write_table(table.filter(pa.array(rows)), path := Path(temporary) / f"{name}.parquet")
                session.sql(f"CREATE VIEW {name} AS SELECT * FROM parquet.`{path}`")
            for using in ALONE:
                found[using].append([aucs(session, using, (label,), seed, passes)[0] for label in LABELS])
            for using in TOGETHER:
                found[using].append(aucs(session, using, LABELS, seed, passes))
        print(f"seed {seed}; " + "; ".join(line(using, np.array(runs[-1])) for using, runs in found.items()), flush=True)
    areas = {using: np.array(runs) for using, runs in found.items()}
    for using, runs in areas.items():
        print(line(using, runs.mean(axis=0)))
        for at, label in enumerate(LABELS if using in TOGETHER else ()):
            best = max(ALONE, key=lambda name: float(areas[name][:, at].mean()))
            apart = runs[:, at] - areas[best][:, at]
            print(f"  {label}: {apart.mean():+.4f} +- {apart.std(ddof=1) / len(apart) ** 0.5:.4f} from {best}")


if __name__ == "__main__":
    file, *rest = sys.argv[1:]
    main(Path(file), int(rest[0]) if rest else 5, int(rest[1]) if rest[1:] else 1)
