"""PyTorch as one writes it: one embedding, its vectors side by side into a network, sparse Adagrad.

python -m benchmarks.peers.pytorch TRAIN TEST DIM BEGAN
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from benchmarks.peers.rows import BUCKETS, Floats, Ids, main

BATCH_SIZE = 1024
RATES = (0.02, 0.01)


def network(inputs: int) -> torch.nn.Module:
    """Return layers of 128 and 64 units and an output."""
    layers = (torch.nn.Linear(inputs, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    return torch.nn.Sequential(*layers)


def fit(
    scores: Callable[[torch.Tensor], torch.Tensor], steps: Sequence[torch.optim.Optimizer], ids: Ids, labels: Floats
) -> Callable[[Ids], Floats]:
    """Learn from all rows in order, once, and return what scores rows."""
    for start in range(0, len(labels), BATCH_SIZE):
        batch = slice(start, start + BATCH_SIZE)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            scores(torch.from_numpy(ids[batch])), torch.from_numpy(labels[batch])
        )
        for step in steps:
            step.zero_grad()
        loss.backward()
        for step in steps:
            step.step()

    def predict(ids: Ids) -> Floats:
        with torch.no_grad():
            parts = [scores(torch.from_numpy(ids[i : i + BATCH_SIZE])).numpy() for i in range(0, len(ids), BATCH_SIZE)]
        return np.concatenate(parts)

    return predict


def learn(ids: Ids, labels: Floats, dim: int) -> Callable[[Ids], Floats]:
    torch.manual_seed(7)
    embedding = torch.nn.Embedding(BUCKETS, dim, sparse=True)
    torch.nn.init.normal_(embedding.weight, std=0.01)
    layers = network(ids.shape[1] * dim)

    def scores(batch: torch.Tensor) -> torch.Tensor:
        return layers(embedding(batch).flatten(1))[:, 0]

    parts = zip((embedding, layers), RATES, strict=True)
    return fit(scores, [torch.optim.Adagrad(part.parameters(), lr=rate) for part, rate in parts], ids, labels)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(learn)
