"""Processes of torch.distributed that learn together through a server."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xpsql
import xpsql.ps
from xpsql.platform.parameters.hosted import hosted
from xpsql.platform.parameters.opening import opened
from xpsql.platform.parameters.processes import LocalProcesses

torch = pytest.importorskip("torch")
VALUES, DIM, STEPS, WORLD = 30, 4, 5, 2


def batch(number: int, rank: int) -> object:
    return torch.randint(0, VALUES, (8, 3), generator=torch.Generator().manual_seed(100 * number + rank))


def network() -> object:
    torch.manual_seed(3)
    return torch.nn.Linear(DIM, 1)


def learn(rank: int, warehouse: Path, store: str) -> None:
    """Learn as one rank of two."""
    import xpsql.torch as xt

    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    with xpsql.ps.connect(warehouse, "s") as ps:
        bag = xt.EmbeddingBag(ps["item"], mode="sum")
        head = torch.nn.parallel.DistributedDataParallel(network())
        optimizer = torch.optim.SGD(head.parameters(), 0.1)
        for number in range(STEPS):
            optimizer.zero_grad()
            head(bag(batch(number, rank))).square().mean().backward()
            optimizer.step()
            torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_two_ranks_of_ddp_learn_as_one_process_with_the_whole_batch(warehouse: Path, tmp_path: Path) -> None:
    tables = {"item": xpsql.ps.Table(DIM, "adagrad (learning_rate = 0.1, initial_accumulator = 0.1, eps = 1e-10)", init=0.5)}
    held = opened(warehouse, "s", tables, 2, 0, None)
    with hosted(held, LocalProcesses(), checkpoint_seconds=None, tell=lambda line: None) as ps:
        reference = torch.nn.EmbeddingBag(VALUES, DIM, mode="sum")
        with torch.no_grad():
            reference.weight.copy_(torch.from_numpy(ps["item"].pull(np.arange(VALUES))))
        head = network()
        sparse = torch.optim.Adagrad(reference.parameters(), 0.1, initial_accumulator_value=0.1)
        dense = torch.optim.SGD(head.parameters(), 0.1)
        for number in range(STEPS):
            sparse.zero_grad()
            dense.zero_grad()
            whole = torch.cat([batch(number, rank) for rank in range(WORLD)])
            head(reference(whole)).square().mean().backward()
            sparse.step()
            dense.step()
        torch.multiprocessing.start_processes(
            learn, (warehouse, str(tmp_path / "store")), nprocs=WORLD, join=True, start_method="spawn"
        )
        found = ps["item"].pull(np.arange(VALUES))
        assert np.abs(found - reference.weight.detach().numpy()).max() < 1e-5
        assert ps.status()["tables"]["item"]["rows"] == VALUES
