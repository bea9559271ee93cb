"""FuxiCTR's FinalMLP on the rows of benchmarks/frappe.py, in a Python that has FuxiCTR 2.3.10: XPSQL_PEERS names it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import Figure, spread
from benchmarks.process import measure

PEERS, VERSION = os.environ.get("XPSQL_PEERS", sys.executable), "FuxiCTR 2.3.10"
DRAWS = 400
"""Of the test rows, for an interval."""
BATCH, DIM, PATIENCE = 4096, 10, 2
SIZES = {"mlp1_hidden_units": [400], "mlp2_hidden_units": [100], "fs_hidden_units": [400], "num_heads": 5}
SIZES |= {"fs1_context": ["user"], "fs2_context": ["item"], "embedding_dim": DIM}  # type: ignore[dict-item]
TOWERS = {f"mlp{n}_{what}": value for n in (1, 2) for what, value in (("dropout", 0.4), ("batch_norm", True))}
LEARNS = {"optimizer": "adam", "loss": "binary_crossentropy", "learning_rate": 1e-3, "embedding_regularizer": 0.05}
"""What the best of BARS' runs on Frappe_x1 has."""

Columns = Mapping[str, NDArray[np.int64]]
Values = NDArray[np.float64]


TARGETS = {"auto": ">= -0.0005"}
"""For the best of ours."""


def beside(
    folder: Path, checkout: str, label: NDArray[np.int64], ours: Mapping[str, Sequence[Sequence[float]]]
) -> Iterator[Figure]:
    """Yield what FinalMLP of FuxiCTR comes to, and how far ours of the same seed is off it.

    Args:
        ours: predictions of the test rows by model, of seeds from 1 on.
    """
    found, spent, least = [], [], dict[str, list[float]]()
    for seed, own in enumerate(zip(*ours.values(), strict=True), 1):
        arguments = json.dumps([str(folder), checkout, seed])
        process = measure([PEERS, "-m", "benchmarks.process", "benchmarks.frappe_peer:final_mlp", arguments])
        values, theirs = (json.loads(line) for line in process.output.splitlines() if line.startswith("["))
        found.append(values)
        spent.append(process.cpu)
        for model, scores in zip(ours, own, strict=True):
            least.setdefault(model, []).append(lowest_gain(label, np.array(scores), np.array(theirs)))
    yield spread("FinalMLP: test AUC", [row[0] for row in found], "", VERSION)
    yield spread("FinalMLP: test logloss", [row[1] for row in found], "", VERSION)
    yield spread("FinalMLP: CPU", spent, "s", VERSION)
    for model, bounds in least.items():
        figure = spread(f"{model} less FinalMLP: test AUC, bound of 95 %", bounds, "", VERSION)
        yield figure._replace(target=TARGETS.get(model, ""))


def lowest_gain(label: NDArray[np.int64], ours: Values, theirs: Values) -> float:
    """Return the AUC of ours less theirs on draws of the rows: the least but the lowest 2.5 % of draws."""
    random, differences = np.random.default_rng(1), []
    orders = [np.argsort(scores, kind="stable") for scores in (ours, theirs)]
    for _ in range(DRAWS):
        times = random.multinomial(len(label), np.full(len(label), 1 / len(label)))
        one, other = (auc(label[order], times[order]) for order in orders)
        differences.append(one - other)
    return float(np.quantile(differences, 0.025))


def auc(label: NDArray[np.int64], times: NDArray[np.int64]) -> float:
    """Return the AUC of rows in order of their scores, each of which counts so many times."""
    positive, negative = times * label, times * (1 - label)
    below = np.cumsum(negative) - negative
    return float((positive * below).sum() / (positive.sum() * negative.sum()))


class Batches:
    """Batches of one part, in a new order in each pass where rows are learned from."""

    def __init__(self, columns: Columns, shuffled: bool) -> None:
        import torch

        self._columns = {name: torch.from_numpy(values) for name, values in columns.items()}
        self._shuffled, self._rows = shuffled, len(columns["label"])

    def __len__(self) -> int:
        return -(-self._rows // BATCH)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        import torch

        order = torch.randperm(self._rows) if self._shuffled else torch.arange(self._rows)
        for start in range(0, self._rows, BATCH):
            yield {name: values[order[start : start + BATCH]] for name, values in self._columns.items()}


def coded(folder: Path, parts: tuple[str, ...]) -> tuple[list[Columns], dict[str, int]]:
    """Return the parts with values as numbers from 1 on, those that the first part lacks as the last one, and how many there
    are."""
    first, *_ = tables = [pq.read_table(folder / f"{part}.parquet") for part in parts]
    found: list[Columns] = [{"label": table["label"].to_numpy()} for table in tables]
    sizes = {}
    for name in first.column_names:
        if name != "label":
            codes = {value: n for n, value in enumerate(first[name].unique().to_pylist(), 1)}
            sizes[name] = len(codes) + 2
            for columns, table in zip(found, tables, strict=True):
                numbers = [codes.get(value, len(codes) + 1) for value in table[name].to_pylist()]
                columns[name] = np.array(numbers)  # type: ignore[index]
    return found, sizes


def final_mlp(folder: str, checkout: str, seed: int) -> Iterator[list[float]]:
    """Train FinalMLP of a checkout of FuxiCTR as BARS does; yield AUC and logloss of the test rows, and their predictions."""
    import torch
    from fuxictr.features import FeatureMap
    from fuxictr.pytorch.torch_utils import seed_everything

    sys.path.insert(0, str(Path(checkout) / "model_zoo" / "FinalMLP"))
    from src.FinalMLP import FinalMLP

    torch.set_num_threads(1)
    (train, valid, test), sizes = coded(Path(folder), ("train", "valid", "test"))
    features = FeatureMap("log", folder)
    features.features.update(
        {name: {"type": "categorical", "source": "", "padding_idx": 0, "vocab_size": size} for name, size in sizes.items()}
    )
    features.labels, features.num_fields = ["label"], len(sizes)
    seed_everything(seed)
    rest = {"verbose": 0, "metrics": ["AUC", "logloss"], "monitor": "AUC", "model_root": folder}
    rest |= {"early_stop_patience": PATIENCE, "model_id": f"final_mlp_{seed}"}
    (Path(folder) / "log").mkdir(exist_ok=True)
    model = FinalMLP(features, gpu=-1, **SIZES, **TOWERS, **LEARNS, **rest)
    model.fit(Batches(train, True), epochs=100, validation_data=Batches(valid, False))
    found = model.evaluate(Batches(test, False))
    yield [found["AUC"], found["logloss"]]
    yield model.predict(Batches(test, False)).tolist()
