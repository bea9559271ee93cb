"""Embeddings of PyTorch whose rows are in a parameter server in the process, beside torch's own sparse EmbeddingBag; and what a
pull and a push of many keys cost. One thread each, in turns, and AdaGrad on both sides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import Figure, Run, spread
from benchmarks.process import cores, figures_of

DIM, PEER = 16, "torch"
TARGETS = {
    "26 slots: rows/s beside EmbeddingBag(sparse = True)": ">= 0.8",
    "pull and push of 24,000 keys of 16 floats": "<= 6",
}


def figures(run: Run) -> Iterator[Figure]:
    rows, batch, steps, rounds = run.size(200, 200_000), run.size(64, 4096), run.size(2, 20), run.size(1, 5)
    with cores(1):
        for slots in (1, 26):
            yield from figures_of(learned, run.folder, slots, rows, batch, steps, rounds)
        yield from figures_of(moved, run.folder, run.size(100, 24_000), rounds * 4)


def drawn(rows: int, slots: int, batch: int) -> NDArray[np.int64]:
    """Return values of slots, of density 1 / (rank + 1)."""
    random = np.random.default_rng(slots)
    return np.minimum(np.exp(random.random((slots, batch)) * np.log(rows + 1)).astype(np.int64) - 1, rows - 1)


def learned(folder: str, slots: int, rows: int, batch: int, steps: int, rounds: int) -> Iterator[Figure]:
    """Learn the same batches by both, in turns."""
    import torch
    from torch import nn

    import xpsql.ps
    import xpsql.torch

    torch.set_num_threads(1)
    batches = [torch.from_numpy(drawn(rows, slots, batch)) for _ in range(steps)]
    names = [f"c{i}" for i in range(slots)]
    tables = {"f": xpsql.ps.Table(DIM, "adagrad (learning_rate = 0.05)", slots=names)}
    with xpsql.ps.local(Path(folder) / "parameters", f"slots{slots}", tables=tables) as ps:
        bags = [xpsql.torch.EmbeddingBag(ps["f"], name) for name in names]
        own = nn.ModuleList(nn.EmbeddingBag(rows, DIM, mode="sum", sparse=True) for _ in names)
        sides = {
            "": step_of(lambda values: xpsql.torch.pooled(bags, [one[:, None] for one in values]), [], slots, batch),
            PEER: step_of(lambda values: [bag(one[:, None]) for bag, one in zip(own, values, strict=True)], own, slots, batch),
        }
        speeds: dict[str, list[float]] = {side: [] for side in sides}
        for round_number in range(rounds + 1):
            for side, step in sides.items():
                began = time.process_time()
                for values in batches:
                    step(values)
                if round_number:  # the first compiles
                    speeds[side].append(len(batches) * batch / (time.process_time() - began))
    word = "slot" if slots == 1 else "slots"
    for side, found in speeds.items():
        yield spread(f"{slots} {word}: learned{side and ', ' + side}", found, "rows/s", side)
    ratios = [ours / theirs for ours, theirs in zip(speeds[""], speeds[PEER], strict=True)]
    yield spread(f"{slots} {word}: rows/s beside EmbeddingBag(sparse = True)", ratios, "x", PEER)


def step_of(pooled: Callable[[Any], list[Any]], rows: Any, slots: int, batch: int) -> Callable[[Any], None]:
    """Return a step of a small network over the bags of all slots."""
    import torch
    from torch import nn

    top = nn.Sequential(nn.Linear(slots * DIM, 64), nn.ReLU(), nn.Linear(64, 1))
    parts = [top.parameters(), *([rows.parameters()] if len(rows) else [])]
    optimizers = [torch.optim.Adagrad(part, 0.05) for part in parts]
    label = (torch.rand(batch) < 0.2).float()

    def step(values: Any) -> None:
        loss = nn.functional.binary_cross_entropy_with_logits(top(torch.cat(pooled(values), 1)).squeeze(1), label)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()

    return step


def moved(folder: str, count: int, rounds: int) -> Iterator[Figure]:
    """Pull and push keys, all of which have rows."""
    import xpsql.ps

    values, gradients = np.arange(count), np.ones((count, DIM), np.float32)
    with xpsql.ps.local(Path(folder) / "parameters", "moved", tables={"f": xpsql.ps.Table(DIM)}) as ps:
        table, found = ps["f"], []
        for _ in range(rounds + 2):
            began = time.process_time()
            table.pull(values)
            table.push(values, gradients)
            found.append(1000 * (time.process_time() - began))
    yield spread(f"pull and push of {count:,} keys of {DIM} floats", found[2:], "CPU ms")
