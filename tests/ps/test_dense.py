"""Dense parameters are the same on any number of shards, and go on after dump and load as if nothing had happened."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray

from xpsql.algorithms.layers.running import following, running
from xpsql.platform.operators.base import DenseSpec
from xpsql.platform.ps import pieces
from xpsql.platform.ps.dense import DenseProgram, ShardDense
from xpsql.platform.ps.placement import dealt


def start(seed: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (8, 4))


SPECS = (DenseSpec("kernel", (8, 4), start), DenseSpec("bias", (4,)), DenseSpec("scale", ()))
OPTIMIZERS = {"adam": optax.adam(0.1), "sgd": optax.sgd(0.1), "momentum": optax.sgd(0.1, momentum=0.9)}


def gradients(step: int) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(step)
    return {spec.name: np.float32(random.normal(size=spec.shape)) for spec in SPECS}


def learned(parts: list[ShardDense], first: int, last: int) -> dict[str, NDArray[np.float32]]:
    for step in range(first, last):
        for part in parts:
            part.push(pieces.cut(cut_of(parts), gradients(step)))
    held = {name: values for part in parts for name, values in part.pull().items()}
    return {name: np.asarray(values) for name, values in pieces.joined(cut_of(parts), held).items()}


def cut_of(parts: list[ShardDense]) -> tuple[pieces.DensePiece, ...]:
    """Return the pieces of the kernel, if it is cut."""
    names = {name for part in parts for name in part.names}
    return tuple(piece for piece in pieces.pieces_of("kernel", (8, 4)) if piece.name in names and not piece.whole)


def parts(optimizer: str, num_shards: int) -> list[ShardDense]:
    program = DenseProgram(SPECS, OPTIMIZERS[optimizer], seed=7)
    return [program.part(number, num_shards) for number in range(num_shards)]


def test_updates_are_those_of_optax_on_each_array() -> None:
    found = learned(parts("adam", 1), 0, 5)
    for spec in SPECS:
        values = np.zeros(spec.shape, np.float32) if spec.init is None else spec.init(7)
        state = OPTIMIZERS["adam"].init(values)
        for step in range(5):
            updates, state = OPTIMIZERS["adam"].update(gradients(step)[spec.name], state, values)
            values = optax.apply_updates(values, updates)
        np.testing.assert_allclose(found[spec.name], values, rtol=1e-6)


def test_a_parameter_with_an_optimizer_of_its_own_keeps_its_state_and_no_other() -> None:
    own = running("mean", (4,), momentum=0.9)
    program = DenseProgram((SPECS[0], own), OPTIMIZERS["adam"], seed=7)
    assert program.columns == {"kernel": ("state_count", "state_mu", "state_nu", "w"), "mean": ("w",)}
    part, expected = program.part(0, 1), np.zeros(4)
    for step in range(5):
        batch = np.random.default_rng(step).normal(size=4).astype(np.float32)
        gradient = jax.grad(following)(jnp.asarray(part.pull()["mean"]), jnp.asarray(batch))
        part.push({"mean": gradient, "kernel": gradients(step)["kernel"]})
        expected = 0.9 * expected + 0.1 * batch
    np.testing.assert_allclose(part.pull()["mean"], expected, rtol=1e-5)
    alone = learned(parts("adam", 1), 0, 5)["kernel"]
    np.testing.assert_allclose(part.pull()["kernel"], alone, rtol=1e-6)
    again = program.part(0, 1)
    again.load({(one.name, one.column): one.values for one in part.dump()})
    np.testing.assert_array_equal(again.pull()["mean"], part.pull()["mean"])


def test_following_a_statistic_adds_nothing_to_the_loss_and_moves_the_statistic_nowhere() -> None:
    parameter, statistic = jnp.array([1.0, 2.0]), jnp.array([3.0, -1.0])
    assert following(parameter, statistic) == 0
    np.testing.assert_array_equal(jax.grad(following, argnums=1)(parameter, statistic), 0)


@pytest.mark.parametrize("num_shards", [2, 3, 5])
def test_any_number_of_shards_learns_the_same(num_shards: int) -> None:
    one, many = learned(parts("adam", 1), 0, 5), learned(parts("adam", num_shards), 0, 5)
    assert one.keys() == many.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(values, many[name])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_dump_load_and_continue_is_as_if_nothing_had_happened(optimizer: str) -> None:
    before = parts(optimizer, 2)
    learned(before, 0, 3)
    stored = {(one.name, one.column): one.values for part in before for one in part.dump()}
    after = parts(optimizer, 3)
    for part in after:
        part.load(stored)
    expected = learned(before, 3, 6)
    for name, values in learned(after, 3, 6).items():
        np.testing.assert_array_equal(values, expected[name])


def test_a_large_parameter_is_dealt_in_pieces_that_learn_and_go_on_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = parts("adam", 1)
    expected = [learned(whole, 0, 3), {(one.name, one.column): one.values for one in whole[0].dump()}, learned(whole, 3, 6)]
    monkeypatch.setattr(pieces, "LEAST_FLOATS", 8)
    cut = parts("adam", 3)
    assert sorted(name for part in cut for name in part.names) == ["bias", *(f"kernel#{i}" for i in range(4)), "scale"]
    assert all(sum(name.startswith("kernel") for name in part.names) for part in cut)
    np.testing.assert_array_equal(learned(cut, 0, 3)["kernel"], expected[0]["kernel"])
    kept = sorted((one for part in cut for one in part.dump() if one.name == "kernel"), key=lambda one: one.first)
    for column in ("w", "state_mu", "state_nu"):
        found = np.concatenate([one.values for one in kept if one.column == column])
        np.testing.assert_array_equal(found, expected[1]["kernel", column])
    other = parts("adam", 2)
    for part in other:
        part.load(expected[1])
    np.testing.assert_array_equal(learned(other, 3, 6)["kernel"], expected[2]["kernel"])


def test_a_parameter_whose_optimizer_looks_at_all_of_it_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "LEAST_FLOATS", 8)
    assert DenseProgram(SPECS, optax.lamb(0.1), seed=7).cut == ()


def test_what_was_pulled_does_not_change_with_later_pushes() -> None:
    (part,) = parts("adam", 1)
    pulled = part.pull()
    before = {name: np.array(values) for name, values in pulled.items()}
    part.push(gradients(0))
    for name, values in before.items():
        np.testing.assert_array_equal(np.asarray(pulled[name]), values)


def test_parameters_are_dealt_by_size_and_each_to_one_shard() -> None:
    sizes = {"a": 10, "b": 4, "c": 3, "d": 4}
    assert dealt(sizes, 2) == [("a",), ("b", "d", "c")]
    assert dealt(sizes, 6) == [("a",), ("b",), ("d",), ("c",), (), ()]
