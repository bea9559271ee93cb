"""Activations against their definitions; parameters, gradients and independence of examples."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xpsql.algorithms.layers.activations import ACTIVATIONS

DIM = 5
X = np.linspace(-4, 4, 6 * DIM).reshape(6, DIM).astype(np.float32)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


DEFINITIONS: dict[str, Callable[[float], float]] = {
    "relu": lambda x: max(x, 0.0),
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "prelu": lambda x: x if x > 0 else 0.25 * x,
    "dice": lambda x: x * sigmoid(x),
    "running_dice": lambda x: x * sigmoid(x),
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "selu": lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x)),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "swish": lambda x: x * sigmoid(x),
    "silu": lambda x: x * sigmoid(x),
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "softplus": lambda x: math.log1p(math.exp(x)),
    "sigmoid": sigmoid,
    "tanh": math.tanh,
    "linear": lambda x: x,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_starts_as_its_definition_says(name: str) -> None:
    chosen = ACTIVATIONS[name]
    expected = [[DEFINITIONS[name](float(x)) for x in row] for row in X]
    found = jax.jit(chosen.apply)(chosen.init(DIM), X)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert (found.shape, found.dtype) == (X.shape, X.dtype)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_by_inputs_and_parameters_are_finite_and_every_parameter_has_one(name: str) -> None:
    chosen = ACTIVATIONS[name]
    extreme = np.concatenate([X, np.full((1, DIM), 100, np.float32), np.full((1, DIM), -100, np.float32)])
    by_parameters, by_inputs = jax.grad(lambda p, x: chosen.apply(p, x).sum(), argnums=(0, 1))(chosen.init(DIM), extreme)
    assert np.isfinite(by_inputs).all()
    for parameter, gradient in by_parameters.items():
        assert gradient.shape == (DIM,), parameter
        assert np.isfinite(gradient).all(), parameter
        averages = chosen.follows(X, np.ones(len(X), bool)) if chosen.follows else {}
        assert np.asarray(gradient).any() == (parameter not in averages), parameter


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_example_is_activated_alone_as_in_its_batch(name: str) -> None:
    chosen = ACTIVATIONS[name]
    parameters = chosen.init(DIM)
    whole = chosen.apply(parameters, jnp.asarray(X))
    for row, expected in zip(X, whole, strict=True):
        np.testing.assert_allclose(chosen.apply(parameters, jnp.asarray(row)), expected, rtol=1e-6)


def test_learned_parameters_are_per_unit() -> None:
    slopes = jnp.arange(float(DIM))
    found = ACTIVATIONS["prelu"].apply({"slope": slopes}, jnp.full((2, DIM), -1.0))
    np.testing.assert_array_equal(found, [-slopes, -slopes])
    steep = {"slope": slopes, "mean": jnp.full(DIM, 2.0), "steepness": jnp.full(DIM, 50.0)}
    found = ACTIVATIONS["dice"].apply(steep, jnp.array([[1.0] * DIM, [3.0] * DIM]))
    np.testing.assert_allclose(found, [slopes, [3.0] * DIM], rtol=1e-5, atol=1e-6)
