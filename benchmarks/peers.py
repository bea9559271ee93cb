"""Other tools on the rows that xpsql learns from, each in a process of its own, and where it is installed.

PyTorch and the kernel of TorchRec's fused embeddings (`fbgemm-gpu-cpu`) read the same Parquet and hash it; Vowpal Wabbit and
alphaFM's `fm_train` read text that is made before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.process import Measured, call, child, measure

BUCKETS = 1 << 20
BATCH_SIZE, RATES = 1024, (0.02, 0.01)
Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
Predict = Callable[[Ids], Floats]
VW_OPTIONS = "--ftrl --ftrl_alpha 0.1 --ftrl_beta 1 -b 24 --loss_function logistic"


def auc(labels: NDArray[np.bool_], scores: NDArray[np.floating[Any]]) -> float:
    """Return the area under the ROC curve; ties count one half."""
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[group]
    positives = int(labels.sum())
    return float((ranks[labels].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives)))


def auc_of(test: Path, predictions: Path) -> float:
    """Return the AUC of predictions, one a line."""
    return auc(pq.read_table(test, columns=["label"])["label"].to_numpy() == 1, np.loadtxt(predictions))


def vw(options: str) -> None:
    """Run Vowpal Wabbit."""
    from vowpalwabbit import pyvw

    pyvw.Workspace(options + " --quiet").finish()


def vw_command(text: Path, model: Path, more: str = "") -> list[str]:
    """Return the command that learns a logistic regression by FTRL."""
    return call(vw, f"{VW_OPTIONS} {more} -d {text} -f {model}")


def vw_auc(log: Path, model: Path) -> float:
    """Return the test AUC of a model."""
    found = model.with_suffix(".predictions")
    measure(call(vw, f"-t -d {log / 'test.vw'} -i {model} -p {found}"))
    return auc_of(log / "test.parquet", found)


def read(path: Path) -> tuple[Ids, Floats]:
    """Return hashed ids of all slots in [0, BUCKETS), int64[rows, slots], and labels float32[rows]."""
    file = pq.ParquetFile(path)
    names = [name for name in file.schema_arrow.names if name not in ("label", "ts")]
    words = [name for name in names if pa.types.is_string(file.schema_arrow.field(name).type)]
    file = pq.ParquetFile(path, read_dictionary=words)
    ids = np.empty((file.metadata.num_rows, len(names)), np.int64)
    labels, at = [], 0
    for batch in file.iter_batches(1 << 17, columns=["label", *names]):
        labels.append(batch["label"].to_numpy().astype(np.float32))
        for column, name in enumerate(names):
            ids[at : at + len(batch), column] = hashed(batch[name], column)
        at += len(batch)
    return ids, np.concatenate(labels)


def hashed(values: pa.Array, column: int) -> Ids:
    """Return the ids of a column's values; NULL is a value like any other."""
    import pandas as pd

    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    distinct = encoded.dictionary.to_numpy(zero_copy_only=False)
    salt = np.uint64(0x9E3779B97F4A7C15 * (column + 1) % (1 << 64))
    codes = np.append(pd.util.hash_array(distinct, categorize=False), np.uint64(0)) ^ salt
    codes = (codes * np.uint64(0xBF58476D1CE4E5B9)) >> np.uint64(44)
    return codes.astype(np.int64)[encoded.indices.fill_null(len(distinct)).to_numpy()]


def write_text(path: str, target: str) -> None:
    """Write a line a row for alphaFM: the label, and the features by name with their value 1."""
    with Path(target).open("wb") as file:
        for batch in pq.ParquetFile(path).iter_batches(100_000):
            names = [name for name in batch.schema.names if name not in ("label", "ts")]
            values = [pc.fill_null(batch[name].cast(pa.string()), "") for name in names]
            words = [pc.binary_join_element_wise(name, own, "1", "_") for name, own in zip(names, values, strict=True)]
            words = [pc.replace_substring_regex(own, "_1$", ":1") for own in words]
            lines = pc.binary_join_element_wise(batch["label"].cast(pa.string()), *words, " ")
            file.write(("\n".join(lines.to_pylist()) + "\n").encode())


def fit(scores: Callable[[Any], Any], steps: list[Any], ids: Ids, labels: Floats) -> Predict:
    """Learn from all rows in order, once, with PyTorch, and return the function that scores rows."""
    import torch

    for start in range(0, len(labels), BATCH_SIZE):
        batch = slice(start, start + BATCH_SIZE)
        found, wanted = scores(torch.from_numpy(ids[batch])), torch.from_numpy(labels[batch])
        update(steps, torch.nn.functional.binary_cross_entropy_with_logits(found, wanted))

    def predict(ids: Ids) -> Floats:
        with torch.no_grad():
            parts = [scores(torch.from_numpy(ids[i : i + BATCH_SIZE])).numpy() for i in range(0, len(ids), BATCH_SIZE)]
        return np.concatenate(parts)

    return predict


def update(steps: list[Any], loss: Any) -> None:
    for step in steps:
        step.zero_grad()
    loss.backward()
    for step in steps:
        step.step()


def layers(inputs: int) -> Any:
    """Return layers of 128 and 64 units and an output."""
    from torch import nn

    return nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))


def pytorch(ids: Ids, labels: Floats, dim: int) -> Predict:
    """PyTorch as one writes it: one embedding, its vectors into a network, sparse Adagrad."""
    import torch

    embedding, network = torch.nn.Embedding(BUCKETS, dim, sparse=True), layers(ids.shape[1] * dim)
    torch.nn.init.normal_(embedding.weight, std=0.01)
    parts = zip((embedding, network), RATES, strict=True)
    steps = [torch.optim.Adagrad(part.parameters(), lr=rate) for part, rate in parts]
    return fit(lambda batch: network(embedding(batch).flatten(1))[:, 0], steps, ids, labels)


def torchrec(ids: Ids, labels: Floats, dim: int) -> Predict:
    """TorchRec's kernel: a table-batched embedding that updates itself by row-wise AdaGrad."""
    import torch
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen

    slots = ids.shape[1]
    embedding = SplitTableBatchedEmbeddingBagsCodegen(
        [(BUCKETS, dim, EmbeddingLocation.HOST, ComputeDevice.CPU)],
        feature_table_map=[0] * slots,
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=RATES[0],
        eps=1e-8,
    )
    embedding.init_embedding_weights_uniform(-0.017, 0.017)
    network = layers(slots * dim)

    def scores(batch: Any) -> Any:
        return network(embedding(batch.T.reshape(-1), torch.arange(batch.numel() + 1)))[:, 0]

    return fit(scores, [torch.optim.Adagrad(network.parameters(), lr=RATES[1])], ids, labels)


LEARNERS = {"pytorch": pytorch, "torchrec": torchrec}


def learn(name: str, log: str, dim: int, began: float) -> Iterator[dict[str, float]]:
    """Train and score; yield the seconds from `began`, the parent's time.monotonic(), to the model, CPU seconds, test AUC."""
    import torch

    torch.manual_seed(7)
    torch.set_num_threads(1)
    predict = LEARNERS[name](*read(Path(log) / "train.parquet"), dim)
    ended, used = time.monotonic(), time.process_time()
    ids, labels = read(Path(log) / "test.parquet")
    yield {"seconds": ended - began, "cpu": used, "auc": auc(labels == 1, predict(ids))}


class Trained(NamedTuple):
    """What a tool took from its start to the trained model, and the AUC of the test rows."""

    measured: Measured
    auc: float


def torch_like(name: str, dim: int) -> Callable[[Path, Path], Trained]:
    """Return how one of LEARNERS is measured."""

    def trained(log: Path, folder: Path) -> Trained:
        (found,), whole = child(learn, name, log, dim, time.monotonic())
        return Trained(whole._replace(seconds=found["seconds"], cpu=found["cpu"]), found["auc"])

    return trained


def alphafm(log: Path, folder: Path) -> Trained:
    """Measure alphaFM's fm_train from text."""
    train, test = (folder / f"{name}.alphafm" for name in ("train", "test"))
    for target in (train, test):
        if not target.exists():
            measure(call(write_text, log / f"{target.stem}.parquet", target))
    options = "-dim 1,1,8 -core 1 -init_stdev 0.01 -w_alpha 0.1 -w_l1 0 -w_l2 0 -v_alpha 0.02 -v_l1 0 -v_l2 0 -mf bin"
    model, found = folder / "alphafm.model", folder / "alphafm.predictions"
    done = measure(["sh", "-c", f"fm_train {options} -m {model} < {train}"])
    measure(["sh", "-c", f"fm_predict -dim 8 -core 1 -mf bin -m {model} -out {found}.both < {test}"])
    measure(["sh", "-c", f"cut -d' ' -f2 {found}.both > {found}"])
    return Trained(done, auc_of(log / "test.parquet", found))


MLP = """
from torch import nn

class Mlp(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features.width, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x.flat)
"""
"""The network of `pytorch` as a file of the user's: USING network (file = ..., class = 'Mlp')."""
