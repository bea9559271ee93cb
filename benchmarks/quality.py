"""Test AUC and calibration of the defaults after one pass, and of other settings, on the made log and on published ones.

The made log's best possible AUC is 0.80. A setting's figure is its AUC less that of the default.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks import Figure, Run, spread
from benchmarks.process import connect, figures_of
from benchmarks.published import LOGS

TARGETS: dict[str, str] = {}
SETTINGS = {
    "logistic_regression": (),
    "owlqn": ("l2 = 1", "l2 = 30"),
    "xftrl": ("alpha = 0.05", "alpha = 0.3", "l2 = 1"),
    "fm": ("alpha = 0.1, vector_alpha = 0.05", "alpha = 0.3, vector_alpha = 0.05"),
    "ffm": ("alpha = 0.1, vector_alpha = 0.05", "alpha = 0.3, vector_alpha = 0.05"),
    "xnn": ("dim = 16", "interaction = 'bi'", "interaction = 'pairs'", "normalise = 'layer_norm'", "learning_rate = 0.003"),
    "wide_deep": (),
    "deepfm": (),
    "dcn": (),
}
QUICK = ("xftrl", "xnn")


def figures(run: Run) -> Iterator[Figure]:
    seeds = list(range(1, run.size(1, 3) + 1))
    logs = ["made", "flights", *(() if run.data is None else (name for name in LOGS if name != "flights"))]
    for name in logs[:1] if run.quick else logs:
        for algorithm in QUICK if run.quick else SETTINGS:
            yield from figures_of(learned, name, algorithm, seeds, run.log, run.data, run.folder / name)


def learned(name: str, algorithm: str, seeds: list[int], log: str, data: str | None, folder: str) -> Iterator[Figure]:
    """Train an algorithm with its defaults and other settings, and yield the figures of the test rows."""
    paths = [Path(log) / f"{part}.parquet" for part in ("train", "test")]
    if name != "made":
        Path(folder).mkdir(exist_ok=True)
        paths = [Path(folder) / path.name for path in paths]
        for path, table in zip(paths, LOGS[name](Path(data or "")), strict=True):
            pq.write_table(table.select([column for column in table.column_names if column != "seen"]), path)
    train, test = (f"parquet.`{path}`" for path in paths)
    ignored = "IGNORE (ts)" if name == "made" else ""
    with connect(Path(folder) / "warehouse") as session:

        def quality(options: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
            found = []
            for seed in seeds:
                settings = f"seed = {seed}" if algorithm == "owlqn" else f"workers = 1, seed = {seed}"
                using = f"{algorithm} ({options}) LABEL label {ignored} WITH ({settings})"
                session.sql(f"TRAIN OR REPLACE MODEL m USING {using} AS SELECT * FROM {train}")
                found += session.sql(f"SELECT auc, pcopc FROM ML.EVALUATE(MODEL m, (SELECT * FROM {test}))").fetchall()
            return np.array(found, np.float64)

        default = quality("")
        yield spread(f"{name}, {algorithm}: test AUC", list(default[:, 0]), "")
        yield spread(f"{name}, {algorithm}: test PCOPC", list(default[:, 1]), "")
        for options in SETTINGS[algorithm]:
            yield spread(f"{name}, {algorithm} ({options}): AUC, gain", list(quality(options)[:, 0] - default[:, 0]), "")
