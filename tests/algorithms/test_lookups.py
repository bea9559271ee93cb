"""Custom calls against the same in JAX: values, gradients, and what does not mix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xpsql.algorithms.lookups import gathered, meetings, met, sums, taken, totals

ROWS, LINES, BATCH = 50, 5, 64

Function = Callable[..., Any]

PAIRS: dict[str, tuple[Function, Function]] = {
    "gathered": (gathered, lambda rows, index: taken(rows, index.T)),
    "totals": (lambda rows, index: totals(rows[:, 0], index), lambda rows, index: taken(rows[:, 0], index).sum(axis=0)),
    "sums": (sums, lambda rows, index: (taken(rows, index).sum(axis=0), (taken(rows, index) ** 2).sum(axis=0))),
    "met": (met, meetings),
}


def inputs(dim: int) -> tuple[jax.Array, jax.Array]:
    random = np.random.default_rng(dim)
    index = random.zipf(1.5, (LINES, BATCH)) % ROWS
    return jnp.asarray(random.normal(size=(ROWS, LINES * dim)), jnp.float32), jnp.asarray(index, jnp.int32)


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
