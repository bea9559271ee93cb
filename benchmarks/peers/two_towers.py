"""Two towers in PyTorch as one writes them: bags of vectors with sparse gradients, layers, softmax over the batch.

    python -m benchmarks.peers.two_towers PARQUET BATCH BEGAN

PARQUET is of benchmarks.towers, BEGAN time.monotonic() of whoever starts it. What is learned is as of `two_tower` there:
histories share the items' vectors, both towers have a layer and end in vectors of length 1, and each item is contrasted with
those of the batch, less the logarithm of how often it is taken. Prints a line of JSON: seconds from BEGAN and CPU seconds, and
those of the loop.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from torch.nn import functional

from benchmarks.towers import DIM, TEMPERATURE

RATES = (0.1, 0.001)


class Towers(torch.nn.Module):
    """The vectors of items and of their categories, and a layer for each tower."""

    def __init__(self, items: int, categories: int) -> None:
        super().__init__()
        self.items = torch.nn.EmbeddingBag(items, DIM, mode="sum", sparse=True)
        self.categories = torch.nn.EmbeddingBag(categories, DIM, mode="sum", sparse=True)
        self.query, self.item = torch.nn.Linear(DIM, DIM), torch.nn.Linear(2 * DIM, DIM)
        for bags in (self.items, self.categories):
            torch.nn.init.uniform_(bags.weight, -0.17, 0.17)

    def forward(
        self, history: torch.Tensor, offsets: torch.Tensor, lengths: torch.Tensor, item: torch.Tensor, category: torch.Tensor
    ) -> torch.Tensor:
        """Return the products of each query's vector and each item's."""
        one = torch.arange(len(item))
        queries = self.query(self.items(history, offsets) / lengths.sqrt()[:, None])
        items = self.item(torch.cat([self.items(item, one), self.categories(category, one)], 1))
        return functional.normalize(queries) @ functional.normalize(items).T / TEMPERATURE


def main(path: Path, size: int, began: float) -> None:
    torch.manual_seed(7)
    torch.set_num_threads(1)
    table = pq.read_table(path).combine_chunks()
    item, category = (torch.from_numpy(table[name].to_numpy().copy()) for name in ("item", "category"))
    lists = table["history"].chunk(0)
    history, offsets = (torch.from_numpy(part.to_numpy().astype(np.int64)) for part in (lists.flatten(), lists.offsets))
    number = int(max(item.max(), history.max())) + 1
    model = Towers(number, int(category.max()) + 1)
    sparse = torch.optim.Adagrad([model.items.weight, model.categories.weight], lr=RATES[0])
    dense = torch.optim.Adam([*model.query.parameters(), *model.item.parameters()], lr=RATES[1])
    count = torch.zeros(number)
    start, used = time.monotonic(), time.process_time()
    for first in range(0, len(item), size):
        part = slice(first, min(first + size, len(item)))
        bounds, own = offsets[part.start : part.stop + 1], item[part]
        count += torch.bincount(own, minlength=number)
        lengths = bounds.diff().float().clamp(min=1)
        words = history[bounds[0] : bounds[-1]]
        scores = model(words, bounds[:-1] - bounds[0], lengths, own, category[part]) - (count[own] / part.stop).log()
        same = (own[:, None] == own[None]).fill_diagonal_(False)
        loss = functional.cross_entropy(scores.masked_fill(same, -1e9), torch.arange(len(own)))
        for step in (sparse, dense):
            step.zero_grad()
        loss.backward()
        for step in (sparse, dense):
            step.step()
    ended, cpu = time.monotonic(), time.process_time()
    reported = {"seconds": ended - began, "learning": ended - start, "cpu_seconds": cpu, "learning_cpu": cpu - used}
    print(json.dumps(reported))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
