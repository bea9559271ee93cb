"""Custom calls against the same in JAX: values, gradients, and what does not mix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import costly_after_first, lengthy
from xpsql.algorithms.layers import _lookups
from xpsql.algorithms.layers.affine import affine, side_by_side
from xpsql.algorithms.layers.lookups import gathered, meetings, met, portable, product, projected, sums, taken, totals
from xpsql.algorithms.layers.stacked import Stacked

ROWS, LINES, BATCH = 50, 5, 64

COMMON = [True, False, True, True, False]
EACH = 5

Function = Callable[..., Any]


def of_groups(index: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return lines of which some are common to five examples each, and the group of each example."""
    owner = jnp.arange(index.shape[1], dtype=jnp.int32) // EACH
    return jnp.where(jnp.array(COMMON)[:, None], index[:, owner * EACH], index), owner


def met_in_groups(rows: jax.Array, index: jax.Array) -> jax.Array:
    lines, owner = of_groups(index)
    return met(rows, lines, (owner, COMMON))


PAIRS: dict[str, tuple[Function, Function]] = {
    "gathered": (gathered, lambda rows, index: taken(rows, index.T)),
    "totals": (lambda rows, index: totals(rows[:, 0], index), lambda rows, index: taken(rows[:, 0], index).sum(axis=0)),
    "sums": (sums, lambda rows, index: (taken(rows, index).sum(axis=0), (taken(rows, index) ** 2).sum(axis=0))),
    "met": (met, meetings),
    "met in groups": (met_in_groups, lambda rows, index: meetings(rows, of_groups(index)[0])),
}


def inputs(dim: int) -> tuple[jax.Array, jax.Array]:
    random = np.random.default_rng(dim)
    index = random.zipf(1.5, (LINES, BATCH)) % ROWS
    return jnp.asarray(random.normal(size=(ROWS, LINES * dim)), jnp.float32), jnp.asarray(index, jnp.int32)


@lengthy
@pytest.mark.parametrize("dim", [1, 2, 4, 7])
@pytest.mark.parametrize("name", PAIRS)
def test_a_custom_call_and_its_gradient_are_those_of_jax(name: str, dim: int) -> None:
    rows, index = inputs(dim)
    values, gradients = [], []
    for function in PAIRS[name]:
        result, pull_back = jax.vjp(jax.jit(lambda rows, f=function: f(rows, index)), rows)
        cotangent = jax.tree.map(lambda value: jnp.cos(jnp.arange(value.size)).reshape(value.shape), result)
        values.append(result)
        gradients.append(pull_back(cotangent)[0])
    for ours, expected in (values, gradients):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5), ours, expected)


@pytest.mark.parametrize("name", PAIRS)
def test_a_nan_stays_with_its_row_and_its_examples(name: str) -> None:
    rows, index = inputs(2)
    index = jnp.where(jnp.arange(BATCH) < 10, index % 20, 20 + index % 30)
    broken = rows.at[:20].set(jnp.nan)

    def summed(rows: jax.Array) -> jax.Array:
        of_examples = [values.reshape(BATCH, -1).sum(axis=1) for values in jax.tree.leaves(PAIRS[name][0](rows, index))]
        return sum(of_examples[1:], of_examples[0])

    found, gradient = summed(broken), jax.grad(lambda rows: summed(rows)[10:].sum())(broken)
    np.testing.assert_allclose(found[10:], summed(rows)[10:], rtol=1e-6)
    assert jnp.isfinite(gradient[20:]).all()


@pytest.mark.parametrize("name", PAIRS)
def test_no_example_is_no_error(name: str) -> None:
    rows, index = inputs(2)

    def summed(rows: jax.Array) -> jax.Array:
        return jnp.concatenate([values.ravel() for values in jax.tree.leaves(PAIRS[name][0](rows, index[:, :0]))]).sum()

    assert not jax.grad(summed)(rows).any()


def apart(batch: int) -> jax.Array:
    """Return lines whose rows are apart, but for six that share theirs, and two that have absent entries, the last row."""
    random = np.random.default_rng(batch)
    index = random.integers(0, 100, (12, batch)) + 100 * np.arange(12)[:, None]
    index[1:7] = 100 + index[1:7] % 100
    index[[8, 10], :10] = 1200
    return jnp.asarray(index, jnp.int32)


@pytest.mark.parametrize("name", ["met", "projected", "side by side", "gathered", "totals", "sums"])
def test_threads_compute_what_one_does(name: str) -> None:
    index, random = apart(3000), np.random.default_rng(3)
    rows = jnp.asarray(random.normal(size=(1201, 24)), jnp.float32)
    kernel = jnp.asarray(random.normal(size=(12 * 24, 80)), jnp.float32)

    def native(rows: jax.Array, kernel: jax.Array) -> Any:
        if name == "side by side":
            return side_by_side(True, rows.reshape(-1, 1, 24), kernel[None, :24], jnp.ones((1, 80)))
        return projected(rows, index, kernel) if name == "projected" else PAIRS[name][0](rows, index)

    @jax.jit
    def both(rows: jax.Array, kernel: jax.Array) -> Any:
        result, pull_back = jax.vjp(native, rows, kernel)
        return result, pull_back(jax.tree.map(lambda value: jnp.cos(jnp.arange(value.size)).reshape(value.shape), result))

    alone = both(rows, kernel)
    try:
        _lookups.set_threads(4)
        for _ in range(20):
            jax.tree.map(np.testing.assert_array_equal, both(rows, kernel), alone)
    finally:
        _lookups.set_threads(1)


@pytest.mark.parametrize("rectified", [False, True])
@pytest.mark.parametrize(
    "sizes", [(0, 1, 3, 2), (1, 1, 1, 1), (7, 3, 5, 17), (64, 1, 40, 33), (130, 2, 33, 64), (200, 4, 128, 1)], ids=str
)
def test_layers_side_by_side_and_their_gradients_are_those_of_jax(sizes: tuple[int, int, int, int], rectified: bool) -> None:
    batch, count, width, units = sizes
    random = np.random.default_rng(batch)
    shapes = (batch, count, width), (count, width, units), (count, units), (batch, count, units)
    *given, outer = (jnp.asarray(random.normal(size=shape), jnp.float32) for shape in shapes)

    def both(*given: jax.Array) -> Any:
        y, pull_back = jax.vjp(lambda *given: side_by_side(rectified, *given), *given)
        return y, pull_back(outer)

    with portable():
        expected = jax.jit(lambda *given: both(*given))(*given)
    found = jax.jit(both)(*given)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-5), found, expected)


def test_a_nan_of_a_layer_stays_with_its_example_and_reaches_its_kernel() -> None:
    x, kernel = jnp.ones((70, 5)).at[3, 2].set(jnp.nan), jnp.ones((5, 40))
    y, pull_back = jax.vjp(lambda x, kernel: affine(x, kernel, jnp.zeros(40), True), x, kernel)
    by_x, by_kernel = pull_back(jnp.ones_like(y))
    assert np.isnan(y).all(axis=1).tolist() == [row == 3 for row in range(70)]
    assert not np.isnan(by_x).any()
    assert np.isnan(by_kernel).all(axis=1).tolist() == [False, False, True, False, False]


def lines(batch: int) -> jax.Array:
    """Return lines of one row, of few, of few and the last of all, of as many as examples, of any, and of the last alone."""
    random = np.random.default_rng(batch)
    few, many = random.integers(3, 9, batch), np.arange(batch) % 40
    absent = np.where(few > 6, ROWS - 1, few)
    kinds = (np.full(batch, 2), few, absent, many, random.integers(0, ROWS, batch), np.full(batch, ROWS - 1))
    return jnp.asarray(np.stack(kinds), jnp.int32)


@costly_after_first
@pytest.mark.parametrize("batch", [0, 1, 5, 64, 100])
@pytest.mark.parametrize(("dim", "units"), [(1, 16), (3, 5), (8, 48), (16, 64), (17, 80), (20, 150)])
def test_a_product_of_rows_side_by_side_and_its_gradients_are_those_of_jax(dim: int, units: int, batch: int) -> None:
    index, random = lines(batch), np.random.default_rng(units)
    rows = jnp.asarray(random.normal(size=(ROWS, dim)), jnp.float32)
    kernel = jnp.asarray(random.normal(size=(len(index) * dim, units)), jnp.float32)
    gradient = jnp.asarray(random.normal(size=(batch, units)), jnp.float32)
    found, pull_back = jax.vjp(lambda rows, kernel: projected(rows, index, kernel), rows, kernel)
    expected, expected_pull_back = jax.vjp(lambda rows, kernel: product(rows, index, kernel), rows, kernel)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    for ours, theirs in zip(pull_back(gradient), expected_pull_back(gradient), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4)


def test_a_nan_of_a_product_stays_with_its_examples_and_their_rows() -> None:
    index = jnp.where(jnp.arange(BATCH) < 10, jnp.arange(BATCH) % 2, 4 + jnp.arange(BATCH) % 5)[None]
    rows = jnp.ones((ROWS, 3)).at[:2].set(jnp.nan)
    found = projected(rows, index, jnp.ones((3, 16)))
    gradient = jax.grad(lambda rows: projected(rows, index, jnp.ones((3, 16)))[10:].sum())(rows)
    assert jnp.isnan(found[:10]).all()
    assert (found[10:] == 3).all()
    assert (gradient[4:9] == 16 * jnp.bincount(index[0])[4:9, None]).all()


@pytest.mark.parametrize("num_lines", [0, 3])
@pytest.mark.parametrize("num_more", [0, 2])
def test_stacked_inputs_times_a_matrix_are_those_laid_side_by_side_times_it(num_lines: int, num_more: int) -> None:
    random = np.random.default_rng(7)
    rows, more = (jnp.asarray(random.normal(size=shape), jnp.float32) for shape in ((ROWS, 4), (BATCH, num_more)))
    stacked = Stacked(rows, lines(BATCH)[:num_lines], more)
    kernel = jnp.asarray(random.normal(size=(4 * num_lines + num_more, 6)), jnp.float32)
    np.testing.assert_allclose(stacked.times(kernel), stacked.whole() @ kernel, rtol=1e-5, atol=1e-5)


@costly_after_first
@pytest.mark.parametrize("name", PAIRS)
def test_what_is_traced_as_portable_has_no_custom_call_and_the_same_values(name: str) -> None:
    rows, index = inputs(4)
    function = PAIRS[name][0]

    def learned(rows: jax.Array) -> Any:
        return jax.value_and_grad(lambda rows: sum(part.sum() for part in jax.tree.leaves(function(rows, index))))(rows)

    native = jax.jit(learned)
    expected = native(rows)
    with portable():
        exported = jax.export.export(jax.jit(lambda rows: learned(rows)), platforms=["cpu"])(rows)
    assert "stablehlo.custom_call" not in exported.mlir_module()
    assert "stablehlo.custom_call" in native.lower(rows).as_text()
    assert "ffi" in str(jax.make_jaxpr(learned)(rows))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-4), exported.call(rows), expected)
