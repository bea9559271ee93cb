"""Modules of torch whose rows are in a server, against torch's own in one process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpsql
import xpsql.ps

torch = pytest.importorskip("torch")

import xpsql.torch as xt  # noqa: E402

nn = torch.nn
VALUES, DIM = 40, 8
SGD, ADAGRAD = "sgd (learning_rate = 0.5)", "adagrad (learning_rate = 0.1, initial_accumulator = 0.1, eps = 1e-10)"


@pytest.fixture
def ps(warehouse: Path) -> Iterator[xpsql.ps.ParameterServer]:
    tables = {"item": xpsql.ps.Table(DIM, SGD), "shared": xpsql.ps.Table(DIM, ADAGRAD, slots=("a", "b"))}
    with xpsql.ps.local(warehouse, "s", tables=tables, shards=2) as ps:
        yield ps


def twin(module: Any, bag: bool, **more: Any) -> Any:
    """Return torch's module with the same rows."""
    made = nn.EmbeddingBag(VALUES, DIM, **more) if bag else nn.Embedding(VALUES, DIM)
    with torch.no_grad():
        made.weight.copy_(torch.from_numpy(module.table.pull(np.arange(VALUES), slot=module.slot)))
    return made


def rows(module: Any) -> Any:
    return module.table.pull(np.arange(VALUES), slot=module.slot)


def learned(module: Any, reference: Any, optimizer: Any, inputs: list[tuple[Any, ...]], own: Any) -> None:
    """Learn by both, and compare losses and rows."""
    head = nn.Linear(DIM, 1)
    other = nn.Linear(DIM, 1)
    other.load_state_dict(head.state_dict())
    dense = own(head.parameters())
    both = optimizer([*reference.parameters(), *other.parameters()])
    for arguments in inputs:
        losses = []
        for part, end in ((module, head), (reference, other)):
            found = end(part(*arguments)).reshape(-1)
            losses.append(nn.functional.mse_loss(found, torch.linspace(0, 1, len(found))))
        dense.zero_grad()
        both.zero_grad()
        losses[0].backward()
        losses[1].backward()
        dense.step()
        both.step()
        assert abs(losses[0].item() - losses[1].item()) < 1e-6
    assert np.abs(rows(module) - reference.weight.detach().numpy()).max() < 1e-6


def backward_twice(loss: Any) -> None:
    loss.backward()
    loss.backward()


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, 0.5)


def adagrad(parameters: Any) -> Any:
    return torch.optim.Adagrad(parameters, 0.1, initial_accumulator_value=0.1)


def test_embedding_learns_as_torchs_does_with_sgd(ps: xpsql.ps.ParameterServer) -> None:
    torch.manual_seed(0)
    module = xt.Embedding(ps["item"])
    inputs = [(torch.randint(0, VALUES, (6, 3)),) for _ in range(20)]
    learned(module, twin(module, False), sgd, inputs, sgd)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_embedding_bag_learns_as_torchs_does_with_adagrad(ps: xpsql.ps.ParameterServer, mode: str) -> None:
    torch.manual_seed(1)
    module = xt.EmbeddingBag(ps["shared"], "b", mode=mode)
    flat = [(torch.randint(0, VALUES, (30,)), torch.tensor([0, 4, 4, 11])) for _ in range(10)]
    square = [(torch.randint(0, VALUES, (5, 4)),) for _ in range(10)]
    learned(module, twin(module, True, mode=mode), adagrad, [*flat, *square], adagrad)


def test_weights_of_samples_get_torchs_gradients(ps: xpsql.ps.ParameterServer) -> None:
    module = xt.EmbeddingBag(ps["item"])
    reference = twin(module, True, mode="sum")
    values, offsets = torch.tensor([1, 2, 2, 3]), torch.tensor([0, 2])
    weights = [torch.tensor([0.5, 1.0, -1.0, 2.0], requires_grad=True) for _ in range(2)]
    found = [part(values, offsets, per_sample_weights=w) for part, w in zip((module, reference), weights, strict=True)]
    assert torch.equal(*found)
    for one in found:
        one.square().sum().backward()
    assert torch.equal(weights[0].grad, weights[1].grad)
    expected = reference.weight.detach().numpy() - np.float32(0.5) * reference.weight.grad.numpy()
    assert np.abs(rows(module) - expected).max() < 1e-7


def test_pooled_gives_what_each_bag_gives_by_one_pull_of_each_table(ps: xpsql.ps.ParameterServer) -> None:
    bags = [xt.EmbeddingBag(ps["shared"], "a"), xt.EmbeddingBag(ps["item"]), xt.EmbeddingBag(ps["shared"], "b", mode="mean")]
    values = torch.randint(0, VALUES, (4, 3))
    inputs = [(values.reshape(-1), torch.tensor([0, 5])), values, values]
    alone = [bag(*one) if isinstance(one, tuple) else bag(one) for bag, one in zip(bags, inputs, strict=True)]
    together = xt.pooled(bags, inputs)
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))
    before = rows(bags[0])
    sum(one.sum() for one in together).backward()
    assert not np.array_equal(before, rows(bags[0]))


def test_strings_have_rows_in_a_forward(ps: xpsql.ps.ParameterServer) -> None:
    module = xt.Embedding(ps["item"])
    assert torch.equal(module(["1", "2"]), module(torch.tensor([1, 2])))


def test_eval_and_no_grad_read_and_create_nothing(ps: xpsql.ps.ParameterServer) -> None:
    module = xt.Embedding(ps["item"])
    with torch.no_grad():
        assert not module(torch.tensor([1])).requires_grad
    module.eval()
    assert not module(torch.tensor([1])).requires_grad
    assert module(torch.empty(0, dtype=torch.int64)).shape == (0, DIM)
    assert ps.status()["tables"]["item"]["rows"] == 0


def test_a_step_adds_up_backwards_to_one_update(ps: xpsql.ps.ParameterServer) -> None:
    module = xt.EmbeddingBag(ps["shared"], "a")
    reference = twin(module, True, mode="sum")
    optimizer = adagrad(reference.parameters())
    parts = [torch.randint(0, VALUES, (4, 3)) for _ in range(3)]
    with xt.step(ps) as step:
        for part in parts:
            module(part).square().mean().backward()
        assert ps.status()["tables"]["shared"]["rows"] == 0
    for part in parts:
        reference(part).square().mean().backward()
    optimizer.step()
    assert step.pushed
    assert np.abs(rows(module) - reference.weight.detach().numpy()).max() < 1e-6


def test_an_error_in_a_step_pushes_nothing(ps: xpsql.ps.ParameterServer) -> None:
    module = xt.Embedding(ps["item"])
    with pytest.raises(RuntimeError, match="second time"), xt.step(ps):
        backward_twice(module(torch.tensor([1])).square().sum())
    assert ps.status()["tables"]["item"]["rows"] == 0


def test_scaled_losses_push_gradients_without_their_scale(ps: xpsql.ps.ParameterServer) -> None:
    module, head = xt.EmbeddingBag(ps["item"]), nn.Linear(DIM, 1)
    optimizer, scaler = sgd(head.parameters()), torch.amp.GradScaler("cpu", init_scale=1024.0)
    reference = twin(module, True, mode="sum")
    values = torch.randint(0, VALUES, (4, 3))
    with torch.autocast("cpu", torch.bfloat16):
        expected = head(reference(values)).float().square().mean()
    (gradient,) = torch.autograd.grad(expected, [reference.weight])
    with xt.step(ps, optimizer, scaler) as step:
        with torch.autocast("cpu", torch.bfloat16):
            loss = head(module(values)).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
    scaler.update()
    assert step.pushed
    assert np.abs(rows(module) - (reference.weight.detach() - 0.5 * gradient).numpy()).max() < 1e-7


@pytest.mark.parametrize("where", ["dense", "rows"])
def test_a_skipped_step_pushes_nothing(ps: xpsql.ps.ParameterServer, where: str) -> None:
    module, head = xt.EmbeddingBag(ps["item"]), nn.Linear(DIM, 1)
    optimizer, scaler = sgd(head.parameters()), torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = rows(module)
    with xt.step(ps, optimizer, scaler) as step:
        pooled = module(torch.tensor([[1, 2]]))
        if where == "rows":
            pooled.register_hook(lambda gradient: gradient * float("inf"))
        loss = head(pooled).sum()
        scaler.scale(loss).backward()
        if where == "dense":
            head.weight.grad.fill_(float("nan"))
        scaler.step(optimizer)
    scaler.update()
    assert step.pushed is False
    assert np.array_equal(rows(module), before)
    assert ps.status()["tables"]["item"]["rows"] == 0


def test_a_state_dict_has_no_rows_and_fits_no_other_table(ps: xpsql.ps.ParameterServer) -> None:
    module = nn.ModuleList([xt.Embedding(ps["item"])])
    state = module.state_dict()
    assert list(state.values()) == [{"table": "item", "slot": "item", "dim": DIM, "raw": False}]
    assert list(module.parameters()) == []
    module.load_state_dict(torch.load(xt.saved(module)))
    with pytest.raises(xpsql.StatementError, match="of other rows"):
        nn.ModuleList([xt.Embedding(ps["shared"], "a")]).load_state_dict(state)


def test_modules_are_not_pickled_and_say_what_to_do(ps: xpsql.ps.ParameterServer) -> None:
    with pytest.raises(TypeError, match=r"cannot be pickled.*xpsql.ps.connect\(\)"):
        pickle.dumps(xt.Embedding(ps["item"]))


def test_what_modules_cannot_be_is_refused(ps: xpsql.ps.ParameterServer) -> None:
    with pytest.raises(xpsql.OptionError, match="mode 'sum' or 'mean', got 'max'"):
        xt.EmbeddingBag(ps["item"], mode="max")
    with pytest.raises(xpsql.StatementError, match="has the slots a, b; none was named"):
        xt.Embedding(ps["shared"])
    with pytest.raises(xpsql.OptionError, match="needs the optimizer"):
        xt.step(ps, scaler=torch.amp.GradScaler("cpu"))
    with pytest.raises(xpsql.DataError, match="values in one dimension need offsets"):
        xt.EmbeddingBag(ps["item"])(torch.tensor([1]))
    with xt.step(ps), pytest.raises(xpsql.StatementError, match="is open already"), xt.step(ps):
        pass


def test_a_loop_over_batches_pushes_each_batch_as_one_update(ps: xpsql.ps.ParameterServer) -> None:
    module = xt.Embedding(ps["item"])
    before = rows(module)
    for batch in ps.batches(f"SELECT id AS item FROM range({VALUES})", batch_size=16):
        module(batch["item"].to_numpy()).sum().backward()
        module(batch["item"].to_numpy()).sum().backward()
    assert np.allclose(before - rows(module), 1.0)
