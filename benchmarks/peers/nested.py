"""A log of requests as others learn from it: PyTorch over flat rows, TorchRec's kernel over flat rows, and the kernel over what
the rows of a request share, once, expanded before the network (deduplication).

python -m benchmarks.peers.nested FOLDER [KIND ...]: of the files of `benchmarks.compact`, by each kind, or those named: CPU
seconds of one core to read and hash, CPU seconds to learn, and rows per CPU second of learning.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.compact import HISTORY, USERS
from benchmarks.peers.pytorch import BATCH_SIZE, RATES, network
from benchmarks.peers.rows import BUCKETS, Floats, Ids, hashed

DIM = 8


class Log(NamedTuple):
    """Ids of the slots of users and their histories, of the slots of items, and labels; the user of each row."""

    users: Ids
    clicked: Ids
    items: Ids
    labels: Floats
    owner: Ids


Scores = Callable[[Log, slice], torch.Tensor]


def ids_of(table: pa.Table, first: int) -> Ids:
    columns = (column.combine_chunks() for column in table.columns)
    return np.stack([hashed(column, first + number) for number, column in enumerate(columns)], axis=1)


def read(file: Path, nested: bool) -> Log:
    """Return the log, what a user's rows share once, or with each row."""
    table = pq.read_table(file)
    candidates = pa.Table.from_struct_array(table["candidates"].combine_chunks().flatten()) if nested else table
    of_items = candidates.drop_columns([name for name in (*USERS, "clicked") if not nested] + ["click"])
    clicked = hashed(table["clicked"].combine_chunks().flatten(), len(USERS)).reshape(-1, HISTORY)
    rows = np.arange(len(of_items))
    labels = candidates["click"].to_numpy().astype(np.float32)
    owner = rows // (len(rows) // len(table))
    return Log(ids_of(table.select(USERS), 0), clicked, ids_of(of_items, len(USERS) + 1), labels, owner)


def plain() -> tuple[Scores, list[torch.optim.Optimizer]]:
    """PyTorch as one writes it: one embedding, a bag of it for the history."""
    embedding = torch.nn.Embedding(BUCKETS, DIM, sparse=True)
    torch.nn.init.normal_(embedding.weight, std=0.01)
    layers = network((len(USERS) + 21) * DIM)

    def scores(log: Log, batch: slice) -> torch.Tensor:
        slots = embedding(torch.from_numpy(np.concatenate([log.users[batch], log.items[batch]], axis=1))).flatten(1)
        history = torch.from_numpy(log.clicked[batch])
        pooled = torch.nn.functional.embedding_bag(history, embedding.weight, mode="sum", sparse=True)
        return layers(torch.cat([slots, pooled], dim=1))[:, 0]  # type: ignore[no-any-return]

    parts = zip((embedding, layers), RATES, strict=True)
    return scores, [torch.optim.Adagrad(part.parameters(), lr=rate) for part, rate in parts]


def kernel(slots: int) -> Any:
    """TorchRec's kernel: a table-batched embedding that updates itself."""
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen

    embedding = SplitTableBatchedEmbeddingBagsCodegen(
        [(BUCKETS, DIM, EmbeddingLocation.HOST, ComputeDevice.CPU)],
        feature_table_map=[0] * slots,
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=RATES[0],
        eps=1e-8,
    )
    embedding.init_embedding_weights_uniform(-0.017, 0.017)
    return embedding


def bags(slots: Ids, clicked: Ids | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the kernel's indices, feature by feature, and their offsets."""
    indices, lengths = slots.T.reshape(-1), np.ones(slots.size, np.int64)
    if clicked is not None:
        indices = np.concatenate([indices, clicked.reshape(-1)])
        lengths = np.concatenate([lengths, np.full(len(clicked), clicked.shape[1])])
    return torch.from_numpy(indices), torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))


def fused(nested: bool) -> tuple[Scores, list[torch.optim.Optimizer]]:
    """Return the same network over the kernel."""
    of_users, of_items, layers = kernel(len(USERS) + 1), kernel(20), network((len(USERS) + 21) * DIM)

    def scores(log: Log, batch: slice) -> torch.Tensor:
        owner = log.owner[batch]
        own = slice(owner[0], owner[-1] + 1) if nested else batch
        users = of_users(*bags(log.users[own], log.clicked[own]))
        if nested:
            users = users.index_select(0, torch.from_numpy(owner - owner[0]))
        return layers(torch.cat([users, of_items(*bags(log.items[batch], None))], dim=1))[:, 0]  # type: ignore[no-any-return]

    return scores, [torch.optim.Adagrad(layers.parameters(), lr=RATES[1])]


KINDS = {"PyTorch": (False, plain), "TorchRec": (False, lambda: fused(False)), "TorchRec, once": (True, lambda: fused(True))}


def main(folder: Path, kinds: list[str]) -> None:
    for kind in kinds:
        (nested, make), began = KINDS[kind], time.process_time()
        log = read(folder / ("nested.parquet" if nested else "flat.parquet"), nested)
        scores, steps = make()
        start, losses = time.process_time(), []
        for first in range(0, len(log.labels), BATCH_SIZE):
            batch = slice(first, min(first + BATCH_SIZE, len(log.labels)))
            labels = torch.from_numpy(log.labels[batch])
            loss = torch.nn.functional.binary_cross_entropy_with_logits(scores(log, batch), labels)
            for step in steps:
                step.zero_grad()
            loss.backward()
            for step in steps:
                step.step()
            losses.append(float(loss.detach()))
        seconds, rows = time.process_time() - start, len(log.labels)
        print(f"{kind:15} {start - began:6.2f} {seconds:6.2f} {rows / seconds:9,.0f} rows/s, loss {np.mean(losses):.4f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2:] or list(KINDS))
