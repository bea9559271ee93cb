"""LightGBM and flaml, searched for as many CPU seconds as USING auto, on the same rows."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def frames(folder: str) -> tuple[Any, Any]:
    """Return a log as data frames, categories as pandas has them; other tools know no arrays."""
    import pandas as pd

    tables = [pq.read_table(Path(folder) / f"{part}.parquet") for part in ("train", "test")]
    kept = [field.name for field in tables[0].schema if field.name != "ts" and not pa.types.is_list(field.type)]
    first, later = (table.select(kept).to_pandas() for table in tables)
    for name in first.columns:
        if first[name].dtype == object:
            kinds = pd.CategoricalDtype(sorted(first[name].dropna().unique()))
            first[name], later[name] = first[name].astype(kinds), later[name].astype(kinds)
    return first, later


def lightgbm(seconds: float, folder: str) -> Iterator[Any]:
    """Search LightGBM's options at random for as many CPU seconds, judged by the last fifth of the rows."""
    library: Any = importlib.import_module("lightgbm")
    first, later = frames(folder)
    labels, first = first.pop("label").astype(int), first
    cut, random, began = len(first) * 4 // 5, np.random.default_rng(1), time.process_time()
    best: tuple[float, dict[str, Any], int] = (0.0, {}, 100)
    left = seconds * 0.8
    while not best[0] or time.process_time() - began < left:
        drawn = {
            "num_leaves": int(2 ** random.uniform(3, 8)),
            "learning_rate": float(10 ** random.uniform(-2, -0.5)),
            "min_child_samples": int(2 ** random.uniform(2, 8)),
            "feature_fraction": float(random.uniform(0.4, 1)),
            "lambda_l2": float(10 ** random.uniform(-2, 2)),
            "cat_smooth": float(10 ** random.uniform(0, 2)),
            **{"objective": "binary", "metric": "auc", "num_threads": 1, "verbose": -1},
        }
        parts = library.Dataset(first[:cut], labels[:cut], free_raw_data=False), library.Dataset(first[cut:], labels[cut:])
        model = library.train(
            drawn if best[0] else {**drawn, **USUAL},
            parts[0],
            500,
            valid_sets=[parts[1]],
            callbacks=[library.early_stopping(20, verbose=False), stopping(library, began + left)],
        )
        found = model.best_score["valid_0"]["auc"]
        best = max(best, (found, model.params, model.best_iteration), key=lambda one: one[0])
    model = library.train({**best[1]}, library.Dataset(first, labels), best[2])
    later.pop("label")
    np.save(Path(folder) / "LightGBM.npy", model.predict(later).astype(np.float32))
    yield {"seconds": time.process_time() - began}


USUAL = {"num_leaves": 31, "learning_rate": 0.1, "min_child_samples": 20, "feature_fraction": 1.0, "lambda_l2": 0.0}


def stopping(library: Any, end: float) -> Callable[[Any], None]:
    """Return what stops a training of LightGBM when CPU seconds are over."""

    def after(state: Any) -> None:
        if time.process_time() > end and state.iteration:
            raise library.callback.EarlyStopException(state.iteration, state.evaluation_result_list)

    return after


def flaml(seconds: float, folder: str) -> Iterator[Any]:
    """Let flaml search for as many CPU seconds."""
    library: Any = importlib.import_module("flaml")
    first, later = frames(folder)
    labels = first.pop("label").astype(int)
    later.pop("label")
    time.time = time.process_time  # flaml looks it up when it measures
    search = library.AutoML()
    settings = {"task": "classification", "metric": "roc_auc", "n_jobs": 1, "seed": 1, "verbose": 0}
    search.fit(first, labels, time_budget=seconds, eval_method="holdout", split_ratio=0.2, **settings)
    np.save(Path(folder) / "flaml.npy", np.asarray(search.predict_proba(later))[:, 1].astype(np.float32))
    yield {"seconds": time.process_time()}
