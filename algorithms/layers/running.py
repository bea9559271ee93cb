"""Running statistics as dense parameters: a moving average is what SGD makes of a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from ...platform.operators.base import DenseSpec

if TYPE_CHECKING:
    import optax

MOMENTUM = 0.99


class Following(NamedTuple):
    """The batch that a training learns from now.

    Attributes:
        examples: bool[batch], those that are no padding.
        losses: of `following`, which the training adds, as of each example.
    """

    examples: jax.Array
    losses: list[jax.Array]


LEARNED: ContextVar[Following | None] = ContextVar("LEARNED", default=None)


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


@contextmanager
def learning(examples: jax.Array) -> Iterator[list[jax.Array]]:
    """Yield the losses by which parameters follow the batch whose loss is traced within, as collected from `follow`.

    Args:
        examples: bool[batch], those that are no padding.
    """
    batch = Following(examples, [])
    token = LEARNED.set(batch)
    try:
        yield batch.losses
    finally:
        LEARNED.reset(token)


def follow(
    parameters: Mapping[str, jax.Array],
    statistics: Callable[[jax.Array], Mapping[str, jax.Array]],
    mask: jax.Array | None = None,
) -> None:
    """Move parameters towards the statistics of the batch that a training learns from; do nothing elsewhere.

    A layer calls it where scores are computed, outside of scans and other transformations of JAX. A batch without examples, and
    what is no number, moves nothing.

    Args:
        parameters: by name, made by `running`.
        statistics: of what is there, bool[batch, ...], by those names, in their shapes.
        mask: bool[batch, ...], what is there of each example, where that is more than the example.
    """
    batch = LEARNED.get()
    if batch is None:
        return
    there = batch.examples if mask is None else mask & batch.examples.reshape(-1, *[1] * (mask.ndim - 1))
    for name, statistic in statistics(there).items():
        known = there.any() & jnp.isfinite(statistic)
        batch.losses.append(following(parameters[name], jnp.where(known, statistic, parameters[name])))
