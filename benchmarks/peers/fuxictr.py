"""FuxiCTR's DIN or DIEN on the rows of `benchmarks.interests`: python -m benchmarks.peers.fuxictr RESULTS LOG SEEDS ZOO KIND.

ZOO is a folder with `DIN.py` and `DIEN.py`, as `model_zoo/*/src` of FuxiCTR's repository has them; its package does not. Needs
PyTorch, fuxictr 2.3.10, pyarrow and scikit-learn, in an environment of their own. Vectors of 16 elements, attention of 64-32,
layers of 128-64. What else is set is searched for on 50,000 rows to learn from, by the AUC of the last fifth of these: each of
CHANGES on top of the best before it, until half an hour of CPU is used up. Passes are as FuxiCTR's own training has them: after
one that is no better the rate is a tenth, after two such it ends, and the best one counts. A trial is a line of
`fuxictr-search.jsonl` beside RESULTS, so a search that was stopped goes on. Then all rows are learned from by the best
settings, in the passes and with the rates of its trial, and two passes at least: the test AUC after each, a line for each seed.
Steps are FuxiCTR's own, batches are cut from arrays in memory.

`python -m benchmarks.peers.fuxictr PARQUET LOG speed ZOO KIND` learns one pass of a file in batches of 256 and predicts
nothing: for the CPU seconds of a whole process.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.peers.interests import FIELDS, LONGEST, encoded

SEARCHED, SECONDS, PASSES, PATIENCE = 50_000, 1800, 10, 2
NOT_FUXICTRS = ("batch_size", "softmax", "bilinear", "shuffled")
Arrays = dict[str, np.ndarray[Any, Any]]
PLAIN: dict[str, object] = {"learning_rate": 1e-3, "batch_size": 256}
CHANGES: list[dict[str, object]] = [
    {},
    {"learning_rate": 5e-4},
    {"learning_rate": 2e-3},
    {"learning_rate": 5e-3, "batch_size": 1024},
    {"softmax": True},
    {"embedding_regularizer": 1e-5},
    {"embedding_regularizer": 1e-4},
    {"embedding_regularizer": 1e-3},
    {"batch_norm": True},
    {"net_dropout": 0.2},
    {"attention_dropout": 0.2},
    {"shuffled": True},
]


def model_of(kind: str, log: str, sizes: dict[str, int], settings: dict[str, Any], zoo: Path, folder: str) -> Any:
    """Return FuxiCTR's model over the columns of a log."""
    from fuxictr.features import FeatureMap

    described = importlib.util.spec_from_file_location(kind, zoo / f"{kind}.py")
    assert described is not None
    assert described.loader is not None
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    columns = FeatureMap(log, folder)
    columns.labels, columns.default_emb_dim = ["label"], 16
    for name, size in sizes.items():
        columns.features[name] = {"type": "categorical", "source": "", "vocab_size": size, "padding_idx": 0}
    targets = FIELDS[log][0]
    for name in targets:
        like = {"share_embedding": name, "feature_encoder": None, "max_len": LONGEST}
        columns.features[f"hist_{name}"] = {**columns.features[name], "type": "sequence", **like}
    columns.num_fields = columns.get_num_fields()
    fields = [targets if len(targets) > 1 else targets[0]], [tuple(f"hist_{name}" for name in targets)]
    of = {f"{kind.lower()}_{name}_field": fields[at] for at, name in enumerate(("target", "sequence"))}
    own: dict[str, Any] = (
        {"din_use_softmax": "softmax" in settings, "attention_hidden_activations": "Dice"}
        if kind == "DIN"
        else {
            "dien_neg_seq_field": [],
            "attention_type": "bilinear_attention" if "bilinear" in settings else "din_attention",
            "attention_activation": "ReLU",
            "batch_norm": False,
        }
    )
    given: dict[str, Any] = {
        "dnn_hidden_units": [128, 64],
        "embedding_dim": 16,
        "attention_hidden_units": [64, 32],
        **of,
        **own,
    }
    given |= {name: value for name, value in settings.items() if name not in NOT_FUXICTRS}
    rest = {"optimizer": "adam", "loss": "binary_crossentropy", "metrics": ["AUC"], "model_root": folder, "verbose": 0}
    model = getattr(module, kind)(columns, gpu=-1, **given, **rest)
    model._max_gradient_norm = 10.0
    return model


def learn(model: Any, inputs: Arrays, labels: np.ndarray[Any, Any], batch_size: int, order: Any = None) -> None:
    """Learn one pass, in the order of the rows or another one."""
    import torch

    model.train()
    for start in range(0, len(labels), batch_size):
        part = slice(start, start + batch_size) if order is None else order[start : start + batch_size]
        batch = {name: torch.from_numpy(values[part]) for name, values in inputs.items()}
        model.train_step({**batch, "label": torch.from_numpy(labels[part])})


def predicted(model: Any, inputs: Arrays) -> np.ndarray[Any, Any]:
    import torch

    model.eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(next(iter(inputs.values()))), 4096):
            batch = {name: torch.from_numpy(values[start : start + 4096]) for name, values in inputs.items()}
            found.append(model(batch)["y_pred"].numpy().reshape(-1))
    return np.concatenate(found)


def worse(found: list[float]) -> bool:
    """Whether the last pass is no better than those before it, after which FuxiCTR takes a tenth of the rate."""
    return len(found) > 1 and found[-1] < max(found[:-1]) + 1e-6


def ended(found: list[float]) -> bool:
    return len(found) - int(np.argmax(found)) > PATIENCE


def aucs(
    kind: str, log: str, data: Any, settings: dict[str, Any], zoo: Path, seed: int, trial: list[float] | None = None
) -> dict[str, Any]:
    """Learn, in the passes and with the rates of a trial that is given; return the AUC of all rows to test on after each pass,
    the mean AUC of users, and CPU seconds."""
    import torch
    from sklearn.metrics import roc_auc_score

    (train, labels), (test, truth), users, sizes = data
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    found: dict[str, Any] = {"auc": [], "gauc": []}
    began = time.process_time()
    passes = PASSES if trial is None else max(2, int(np.argmax(trial)) + 1)
    with tempfile.TemporaryDirectory() as folder:
        model = model_of(kind, log, sizes, settings, zoo, folder)
        for at in range(1, passes + 1):
            order = random.permutation(len(labels)) if "shuffled" in settings else None
            learn(model, train, labels, settings["batch_size"], order)
            scores = predicted(model, test)
            found["auc"].append(float(roc_auc_score(truth, scores)))
            found["gauc"].append(by_user(users, truth, scores))
            if trial is None and ended(found["auc"]):
                break
            if worse(found["auc"] if trial is None else trial[:at]):
                model.lr_decay()
    return {**found, "seconds": time.process_time() - began}


def by_user(users: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], scores: np.ndarray[Any, Any]) -> float:
    """Return the mean AUC of the users who have both labels, weighted by their rows."""
    from sklearn.metrics import roc_auc_score

    total, rows = 0.0, 0
    order = np.argsort(users, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(users[order])) + 1):
        if len(set(labels[own].tolist())) == 2:
            total, rows = total + float(roc_auc_score(labels[own], scores[own])) * len(own), rows + len(own)
    return total / rows


def part_of(inputs: Arrays, part: slice) -> Arrays:
    return {name: values[part] for name, values in inputs.items()}


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def add(path: Path, line: dict[str, object]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def changes(kind: str) -> list[dict[str, object]]:
    """Return those of CHANGES that a kind has: DIEN's attention has its softmax, and another form."""
    return [{"bilinear": True} if kind == "DIEN" and "softmax" in change else change for change in CHANGES]


def searched(kind: str, log: str, data: Any, zoo: Path, trials: Path) -> dict[str, Any]:
    """Return the best trial."""
    (train, labels), _, _, sizes = data
    rows = min(SEARCHED, len(labels))
    cut, users = rows * 4 // 5, train["user"]
    first, last = slice(0, cut), slice(cut, rows)
    own = (part_of(train, first), labels[first]), (part_of(train, last), labels[last]), users[last], sizes
    key = {"log": log, "kind": kind, "rows": rows}
    before = [one for one in lines_of(trials) if key.items() <= one.items()]
    best: dict[str, Any] = {"settings": PLAIN, "auc": [0.0]}
    seconds = 0.0
    for change in changes(kind):
        settings = {**best["settings"], **change}
        trial = next((one for one in before if one["settings"] == settings), None)
        if trial is None:
            if seconds > SECONDS:
                break
            trial = {**key, "settings": settings, **aucs(kind, log, own, settings, zoo, 1)}
            add(trials, trial)
        seconds += trial["seconds"]
        best = max(best, trial, key=lambda one: max(one["auc"]))
    return best


def main(results: Path, log: str, seeds: int, zoo: Path, kind: str) -> None:
    import torch

    torch.set_num_threads(1)
    tables = [pq.read_table(results.with_name(f"{log}-{name}.parquet")) for name in ("train", "test")]
    inputs, sizes = encoded(tables, log)
    for own in inputs:
        del own["length"]
    labels = [table["label"].to_numpy().copy() for table in tables]
    data = (inputs[0], labels[0]), (inputs[1], labels[1]), inputs[1]["user"], sizes
    done = {(one["log"], one["model"], one["seed"]) for one in lines_of(results)}
    best = searched(kind, log, data, zoo, results.with_name("fuxictr-search.jsonl"))
    for seed in range(1, seeds + 1):
        if (log, name := f"FuxiCTR {kind}", seed) not in done:
            found = aucs(kind, log, data, best["settings"], zoo, seed, best["auc"])
            add(results, {"log": log, "model": name, "seed": seed, "settings": best["settings"], **found})


def speed(path: Path, log: str, zoo: Path, kind: str) -> None:
    """Learn one pass in batches of 256."""
    import torch

    torch.set_num_threads(1)
    table = pq.read_table(path)
    (inputs,), sizes = encoded([table], log)
    del inputs["length"]
    with tempfile.TemporaryDirectory() as folder:
        learn(model_of(kind, log, sizes, PLAIN, zoo, folder), inputs, table["label"].to_numpy().copy(), 256)


if __name__ == "__main__":
    if sys.argv[3] == "speed":
        speed(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[4]), sys.argv[5])
    else:
        main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5])
