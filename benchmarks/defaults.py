"""Compare each algorithm's defaults with the best of some other settings of its own, on published logs, and print test AUC.

    python -m benchmarks.defaults FOLDER RESULTS [LOG ...]

FOLDER is described in benchmarks/real_logs.py and benchmarks/interests.py. The best setting is the one with the highest AUC on
the last fifth of the rows to learn from, which it has not learned from; then both learn from all of them, and test rows, which
nothing was chosen on, tell the difference. Each measurement is a line of RESULTS, a file that the command goes on from.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.ablation import EVERY
from benchmarks.real_logs import Split
from xpsql import Session, connect
from xpsql.platform.progress import SilentReporter

SHORT = ("criteo", "avazu", "kuairand", "talkingdata")
HELD = 0.2
SEEDS = 3
RATES = tuple(f"alpha = {rate}" for rate in (0.05, 0.1, 0.2, 0.4, 0.8))
VECTORS = tuple(f"alpha = {rate}, vector_alpha = {vectors}" for rate in (0.1, 0.3) for vectors in (0.02, 0.05, 0.15))
NETWORK = (
    *("alpha = 0.03", "alpha = 0.3", "learning_rate = 0.0003", "learning_rate = 0.003"),
    *("vector_learning_rate = 0.005", "vector_learning_rate = 0.06", "init_scale = 0.05"),
)
BOOSTED = (
    *("rounds = 30", "rounds = 300", "max_depth = 3", "max_depth = 6", "learning_rate = 0.05"),
    *("l2 = 1", "l2 = 100", "min_child_weight = 10", "categories = 1000", "subsample = 1"),
)
SETTINGS = {
    "xftrl": RATES,
    "owlqn": tuple(f"l2 = {strength}" for strength in (0.3, 1, 3, 10, 30, 100)),
    "xgboost": BOOSTED,
    **dict.fromkeys(("fm", "ffm"), VECTORS),
    **dict.fromkeys(("xnn", "deepfm", "dcn", "wide_deep"), NETWORK),
}


class Results:
    """Measurements by what they are of; kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self._known = {tuple(line["of"]): float(line["auc"]) for line in lines}

    def auc(self, session: Session, of: tuple[str, str, str, int], train: Path, test: Path) -> float:
        """Return the AUC of a log, an algorithm, its setting and a seed on a part of the log; it is measured once."""
        key = (*of, test.stem)
        if key not in self._known:
            _, algorithm, setting, seed = of
            using = f"{algorithm} ({setting})" if setting else algorithm
            workers = "" if algorithm in ("owlqn", "xgboost") else "workers = 1, "
            statement = f"USING {using} LABEL label WITH ({workers}seed = {seed}) AS SELECT * FROM parquet.`{train}`"
            session.sql(f"TRAIN OR REPLACE MODEL m {statement}")
            query = f"SELECT auc FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{test}`))"
            self._known[key] = float(session.sql(query).arrow()["auc"][0].as_py())
            with self._path.open("a") as file:
                file.write(json.dumps({"of": key, "auc": self._known[key]}) + "\n")
        return self._known[key]


def lines(name: str, split: Split, results: Results) -> Iterator[str]:
    """Yield a log's lines of the table."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        first = round(split.train.num_rows * (1 - HELD))
        parts = {"train": split.train, "test": split.test, "fit": split.train.slice(0, first), "held": split.train.slice(first)}
        for part, table in parts.items():
            pq.write_table(table, folder / f"{part}.parquet")
        train, test, fit, held = (folder / f"{part}.parquet" for part in parts)
        with connect(folder / "warehouse", reporter=SilentReporter()) as session:
            for algorithm, settings in SETTINGS.items():

                def tested(setting: str, algorithm: str = algorithm) -> float:
                    found = [results.auc(session, (name, algorithm, setting, seed), train, test) for seed in range(SEEDS)]
                    return statistics.mean(found)

                tried = {setting: results.auc(session, (name, algorithm, setting, 0), fit, held) for setting in ("", *settings)}
                chosen = max(tried, key=lambda setting: tried[setting])
                own, best = tested(""), tested(chosen)
                yield f"| {name} | `{algorithm}` | {own:.4f} | {best:.4f} | {chosen and f'`{chosen}`'} | {best - own:+.4f} |"


def main(folder: str, results: str, *names: str) -> None:
    """Print the table."""
    print("| log | algorithm | defaults | chosen setting | which | gain |\n|---|---|---|---|---|---|")
    known = Results(Path(results))
    for name in names or SHORT:
        for line in lines(name, EVERY[name](Path(folder)), known):
            print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
