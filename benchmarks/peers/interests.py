"""DeepCTR-Torch's DIN and DIEN on the rows of `benchmarks.interests`: python -m benchmarks.peers.interests RESULTS LOG SEEDS.

Needs pandas, PyTorch and deepctr-torch 0.3.0, in an environment of their own. Sizes as of ours, batches of 256, Adam, its
defaults else; the test AUC after each of two epochs.

`python -m benchmarks.peers.interests PARQUET LOG speed KIND` learns one epoch of a file and predicts nothing: for the CPU
seconds of a whole process.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

FIELDS = {
    "kuairand": (("video",), ("seen",)),
    "grocery": (("item", "category"), ("bought", "bought_categories")),
    "games": (("item",), ("bought",)),
}
LONGEST = 50


def encoded(tables: list[Any], log: str) -> tuple[list[dict[str, np.ndarray[Any, Any]]], dict[str, int]]:
    """Return columns as numbers from 1 on, of histories the places of the targets' words, and the words of each."""
    targets, histories = FIELDS[log]
    others = [name for name in tables[0].column_names if name not in (*targets, *histories, "label")]
    inputs: list[dict[str, np.ndarray[Any, Any]]] = [{} for _ in tables]
    sizes = {}
    for name in (*targets, *others):
        place = histories[targets.index(name)] if name in targets else None
        words = {value for table in tables for value in table[name].to_pylist()}
        if place is not None:
            words |= {value for table in tables for row in table[place].to_pylist() for value in row}
        number = {word: at for at, word in enumerate(sorted(words), 1)}
        sizes[name] = len(number) + 1
        for table, own in zip(tables, inputs, strict=True):
            own[name] = np.array([number[value] for value in table[name].to_pylist()])
            if place is not None:
                rows = table[place].to_pylist()
                own[f"hist_{name}"] = np.zeros((len(rows), LONGEST), np.int64)
                for at, row in enumerate(rows):
                    own[f"hist_{name}"][at, : len(row)] = [number[value] for value in row]
                own["length"] = np.array([max(1, len(row)) for row in rows])
    return inputs, sizes


def model_of(kind: str, log: str, sizes: dict[str, int], seed: int) -> Any:
    import torch
    from deepctr_torch.inputs import SparseFeat, VarLenSparseFeat
    from deepctr_torch.models.dien import DIEN
    from deepctr_torch.models.din import DIN

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    columns = [SparseFeat(name, size, embedding_dim=16) for name, size in sizes.items()]
    for name in FIELDS[log][0]:
        like = SparseFeat(f"hist_{name}", sizes[name], embedding_dim=16, embedding_name=name)
        columns.append(VarLenSparseFeat(like, LONGEST, length_name="length"))
    options = {"dnn_hidden_units": (128, 64), "device": "cpu", "seed": seed}
    sizes_of_attention = {
        "DIN": {"att_hidden_size": (64, 32), "att_weight_normalization": True},
        "DIEN": {"att_hidden_units": (64, 32)},
    }
    model = {"DIN": DIN, "DIEN": DIEN}[kind](columns, list(FIELDS[log][0]), **options, **sizes_of_attention[kind])
    model.compile("adam", "binary_crossentropy")
    return model


def learn(model: Any, inputs: dict[str, np.ndarray[Any, Any]], table: Any) -> None:
    model.fit(inputs, table["label"].to_numpy(), batch_size=256, epochs=1, verbose=0)


def measure(kind: str, log: str, seed: int, paths: list[Path]) -> dict[str, object]:
    from sklearn.metrics import roc_auc_score

    tables = [pq.read_table(path) for path in paths]
    (train, test), sizes = encoded(tables, log)
    model = model_of(kind, log, sizes, seed)
    found, began = [], time.process_time()
    for _ in range(2):
        learn(model, train, tables[0])
        found.append(float(roc_auc_score(tables[1]["label"].to_numpy(), model.predict(test, 4096))))
    return {"log": log, "model": f"DeepCTR-Torch {kind}", "seed": seed, "auc": found, "seconds": time.process_time() - began}


def speed(path: Path, log: str, kind: str) -> None:
    """Learn one epoch."""
    table = pq.read_table(path)
    (inputs,), sizes = encoded([table], log)
    learn(model_of(kind, log, sizes, 1), inputs, table)


def main(results: Path, log: str, seeds: int) -> None:
    done = {
        (one["log"], one["model"], one["seed"]) for one in map(json.loads, results.read_text(encoding="utf-8").splitlines())
    }
    for seed in range(1, seeds + 1):
        for kind in ("DIN", "DIEN"):
            if (log, f"DeepCTR-Torch {kind}", seed) not in done:
                line = json.dumps(
                    measure(kind, log, seed, [results.with_name(f"{log}-{name}.parquet") for name in ("train", "test")])
                )
                with results.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    if sys.argv[3] == "speed":
        speed(Path(sys.argv[1]), sys.argv[2], sys.argv[4])
    else:
        main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
