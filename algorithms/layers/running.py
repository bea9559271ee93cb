"""Running statistics as dense parameters: a moving average is what SGD makes of a difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax

from ...platform.operators.base import DenseSpec

if TYPE_CHECKING:
    import optax


def running(name: str, shape: tuple[int, ...], momentum: float, init: Callable[[int], jax.Array] | None = None) -> DenseSpec:
    """Return a parameter that follows what batches have: p <- momentum p + (1 - momentum) statistic, with `following`."""

    def optimizer() -> optax.GradientTransformation:
        import optax  # costs 0.2 s, which algorithms without layers need not pay

        return optax.sgd(1 - momentum)

    return DenseSpec(name, shape, init, optimizer)


def following(parameter: jax.Array, statistic: jax.Array) -> jax.Array:
    """Return a loss of 0, of one example, whose gradient is parameter - statistic; no gradient flows into the statistic.

    A step of SGD(1 - momentum) on it is the update of a moving average, so updates of several workers add up like any others.
    An objective adds it to the loss of each example, since the gradient of a dense parameter is the mean over examples.

    Source: Ioffe and Szegedy, "Batch Normalization", ICML 2015, section 3.1, whose moving averages these are.
    """
    gap = jax.lax.stop_gradient(parameter - statistic)
    return (gap * (parameter - jax.lax.stop_gradient(parameter))).sum()
