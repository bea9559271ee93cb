"""Attention by inner products: what targets see of a history, computed for as many elements as a block of histories has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .attention import NEVER

BLOCK = 32
"""Examples whose histories are cut to one length."""
LENGTHS = (4, 8, 16, 32, 64)
"""These are compiled, and the longest."""

Given = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def attended(elements: jax.Array, keys: jax.Array, mask: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the mean of each history as a target sees it, float32[batch, m, dim]: its elements weighed by the softmax of
    <key, target> / sqrt(dim); zeros of an empty one.

    Blocks of examples are computed one after the other, for the longest history of each: sort examples by `upto`.

    Args:
        elements, keys: float32[batch, L, dim].
        mask: bool[batch, L], where there is an element.
        targets: float32[batch, m, dim], or float32[m, dim] of the same for all examples.
    """
    batch, length = mask.shape
    if batch % BLOCK or length <= LENGTHS[0]:
        return whole(elements, keys, mask, targets)

    def blocks(values: jax.Array) -> jax.Array:
        return values.reshape(batch // BLOCK, BLOCK, *values.shape[1:])

    if targets.ndim == 3:
        found = jax.lax.map(lambda given: cut(*given), tuple(map(blocks, (elements, keys, mask, targets))))
    else:
        found = jax.lax.map(lambda given: cut(*given, targets), tuple(map(blocks, (elements, keys, mask))))
    return found.reshape(batch, *found.shape[2:])  # type: ignore[no-any-return]


def whole(elements: jax.Array, keys: jax.Array, mask: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the same, computed for all places."""
    each = "bld,bmd->bml" if targets.ndim == 3 else "bld,md->bml"
    products = jnp.einsum(each, keys, targets) / np.sqrt(targets.shape[-1])
    weights = jax.nn.softmax(jnp.where(mask[:, None], products, NEVER), axis=2)
    return jnp.einsum("bml,bld->bmd", jnp.where(mask[:, None], weights, 0), elements)


def by_length(function: Callable[..., Any], given: Given, *more: jax.Array) -> Any:
    """Return what a function makes of histories that are cut to the shortest length that has all elements."""
    *histories, targets = given
    lengths = [*(length for length in LENGTHS if length < histories[0].shape[1]), histories[0].shape[1]]

    def of(length: int) -> Callable[..., Any]:
        return lambda *histories: function(*(one[:, :length] for one in histories), targets, *more)

    return jax.lax.switch(jnp.searchsorted(jnp.array(lengths), upto(histories[-1]).max()), list(map(of, lengths)), *histories)


def upto(mask: jax.Array) -> jax.Array:
    """Return up to which place each history has elements, int32[batch]."""
    return jnp.where(mask, jnp.arange(1, mask.shape[1] + 1), 0).max(axis=1)


@jax.custom_vjp
def cut(*given: jax.Array) -> jax.Array:
    return by_length(whole, given)  # type: ignore[no-any-return, arg-type]


def cut_forward(*given: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return cut(*given), given


def cut_backward(given: Given, gradient: jax.Array) -> tuple[object, ...]:
    """Compute each block again, which costs less than to keep it: a branch would keep what all of them do."""
    length = given[0].shape[1]

    def of(elements: jax.Array, keys: jax.Array, mask: jax.Array, targets: jax.Array, gradient: jax.Array) -> Any:
        _, back = jax.vjp(lambda elements, keys, targets: whole(elements, keys, mask, targets), elements, keys, targets)
        *histories, own = back(gradient)
        padding = ((0, 0), (0, length - mask.shape[1]), (0, 0))
        return *(jnp.pad(one, padding) for one in histories), own

    of_elements, of_keys, of_targets = by_length(of, given, gradient)
    return of_elements, of_keys, None, of_targets


cut.defvjp(cut_forward, cut_backward)
