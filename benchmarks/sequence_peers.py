"""FuxiCTR's networks for long histories and RecTools' encoders of sequences, in a Python that has them; see sequences.py."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks import Figure
from benchmarks.process import measure

PEERS = os.environ.get("XPSQL_PEERS", sys.executable)
BESIDE = {"SIM": 8, "ETA": 8, "SDIM": 8, "TWIN": 8, "HSTUModel": 10, "SASRecModel": 10}
"""How many times the speed of each is asked for."""
BATCH, DIM, BEST = 32, 16, 20


def beside(function: str, *arguments: object) -> dict[str, float] | None:
    """Return what a peer took and found, by a function of benchmarks.sequence_peers; None where it cannot be had."""
    command = [PEERS, "-m", "benchmarks.process", f"benchmarks.sequence_peers:{function}", json.dumps(arguments, default=str)]
    try:
        lines = measure(command).output.splitlines()
    except (RuntimeError, OSError) as error:
        print(f"{function} {arguments[0]}: left out, as it cannot be had: {str(error)[-300:]}", file=sys.stderr, flush=True)
        return None
    found: dict[str, float] = json.loads(next(line for line in lines if line.startswith("{")))
    return found


def times(what: str, ours: float, name: str, theirs: dict[str, float] | None, unit: str, version: str) -> Iterator[Figure]:
    """Yield a peer's speed, and ours in times of it."""
    if theirs is not None:
        rate = theirs["count"] / theirs["cpu"]
        yield Figure(f"{what}: {name}", rate, unit, "", version)
        yield Figure(f"{what}: times {name}", ours / rate, "x", f">= {BESIDE[name]}", version)


def fuxictr(kind: str, folder: str, length: int, rows: int) -> Iterator[dict[str, float]]:
    """Train a network of LongCTR; yield the CPU seconds of its batches, with what its loader does for them."""
    import torch
    from fuxictr.features import FeatureMap

    torch.set_num_threads(1)
    torch.manual_seed(1)
    events, named = pq.read_table(Path(folder) / "events.parquet").slice(0, 500 * length), {"item": 50_001, "category": 501}
    history = {name: events[name].cast("int64").to_numpy() + 1 for name in named}
    log = pq.read_table(Path(folder) / "alone.parquet").slice(0, 2 * rows).to_pydict()
    features = FeatureMap("log", folder)
    shape = {"type": "categorical", "source": "item", "padding_idx": 0, "embedding_dim": DIM}
    features.features.update({name: {**shape, "vocab_size": size} for name, size in named.items()})
    features.labels, features.num_fields = ["click"], len(named)
    sizes = {"embedding_dim": DIM, "dnn_hidden_units": [128, 64], "attention_dim": 32, "short_seq_len": 32}
    sizes |= {"optimizer": "adam", "loss": "binary_crossentropy", "learning_rate": 1e-3}
    rest = {"verbose": 0, "metrics": ["AUC"], "model_root": folder}
    model: Any = getattr(import_module(f"model_zoo.LongCTR.{kind}.{kind}"), kind)(
        features, gpu=-1, **sizes, **rest, **({} if kind == "SDIM" else {"topk": 64})
    )
    model._max_gradient_norm, model._batch_index = 10.0, 0
    model.train()
    users = len(history["item"]) // length
    taken: list[float] = []
    for start in range(0, 2 * rows, BATCH):
        began, own = time.process_time(), range(start, start + BATCH)
        items = {}
        for name, values in history.items():
            target = np.array([int(log[name][row]) + 1 for row in own])[:, None]
            past = np.stack([values[log["user"][row] % users * length :][:length] for row in own])
            items[name] = torch.from_numpy(np.hstack([past, target]).reshape(-1))
        mask = torch.ones(BATCH, length)
        label = torch.tensor([float(log["click"][row]) for row in own])
        model.train_step(({"click": label}, items, mask))
        taken.append(time.process_time() - began)
    half = len(taken) // 2  # the others warm it up
    yield {"count": half * BATCH, "cpu": sum(taken[-half:])}


def rectools(kind: str, log: str, length: int, epochs: int, negatives: int, every: str | None) -> Iterator[dict[str, float]]:
    """Train an encoder; yield the CPU seconds of its passes, and its recall of the newest item of users of all events."""
    import pandas as pd
    import torch
    from rectools.dataset import Dataset
    from rectools.models.nn.transformers import hstu, sasrec

    torch.set_num_threads(1)
    torch.manual_seed(1)
    read = pq.read_table(log, columns=["user", "item", "ts"]).to_pandas()
    columns = {"user_id": read["user"], "item_id": read["item"], "weight": 1.0}
    table = pd.DataFrame({**columns, "datetime": pd.to_datetime(read["ts"], unit="s")})
    data = Dataset.construct(table)
    sizes = {"n_blocks": 2, "n_heads": 2, "n_factors": 64, "session_max_len": length, "dropout_rate": 0.2}
    training = {
        "loss": "sampled_softmax",
        "n_negatives": negatives,
        "batch_size": max(8, (4096 if every is None else 1600) // length),
        "epochs": epochs,
    }
    model: Any = (hstu.HSTUModel if kind == "HSTUModel" else sasrec.SASRecModel)(
        **sizes, **training, recommend_torch_device="cpu"
    )
    began = time.process_time()
    model.fit(data)
    took, found = time.process_time() - began, -1.0
    if every is not None:
        whole = pq.read_table(every).to_pandas().sort_values(["user", "ts"], kind="stable")
        newest = whole.groupby("user").tail(1)
        newest = newest[newest["user"].isin(table["user_id"])]
        last, when = newest.set_index("user")["item"], pd.to_datetime(newest["ts"], unit="s")
        asked = {"context": pd.DataFrame({"user_id": newest["user"], "datetime": when, "weight": 1.0})}
        best = model.recommend(
            last.index.to_numpy(), data, k=BEST, filter_viewed=True, **(asked if model.require_recommend_context else {})
        )
        found = float((best["item_id"] == best["user_id"].map(last)).sum() / len(last))
    yield {"count": epochs * (len(table) - table["user_id"].nunique()), "cpu": took, "recall": found}
