"""What attention's network makes of each element of histories, where its activations are dice.

XLA goes through each of its operations over all elements, through memory. So on CPUs all layers are one custom call,
native/attention.cpp, which takes a few elements that are there through all of them, and again for gradients; elsewhere, and in
exports, it is the same in JAX.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp

from .activations import dice
from .dense_layers import Parameters, branch
from .lookups import Saved, called

UNITS = 16  # the native network has a multiple of them, in every layer


class ElementInputs(NamedTuple):
    """What the network sees of a batch; see attention.py.

    Attributes:
        target: float32[batch, width].
        common: float32[batch, units], what an example's elements have in common of the first layer.
        vectors: float32[n, L, width].
        shares: float32[n, L, units].
        mask: bool[n, L].
        owner: int32[batch], the history of each example, ascending; None: n = batch, each has its own.
    """

    target: jax.Array
    common: jax.Array
    vectors: jax.Array
    shares: jax.Array
    mask: jax.Array
    owner: jax.Array | None


def scored(parameters: Parameters, layers: Sequence[str], last: str, given: ElementInputs) -> jax.Array:
    """Return the network's output for each element, float32[batch, L], 0 where there is none.

    Args:
        layers: the names of the layers, all with dice; of the first one's kernel the last quarter is for target * element.
        last: the name of the layer of one unit after them, whose bias is left out.
    """
    own, output = [branch(parameters, name) for name in layers], parameters[f"{last}.kernel"]
    kernels = [jnp.split(own[0]["kernel"], 4)[3], *(of["kernel"] for of in own[1:])]
    sizes = [up(len(kernel)) for kernel in kernels] + [up(len(output))]
    flat = []
    for i, (of, kernel) in enumerate(zip(own, kernels, strict=True)):
        flat.append(filled(kernel, sizes[i], sizes[i + 1]).reshape(-1))
        flat += [filled(of[name], sizes[i + 1]) for name in ("bias", "slope", "mean", "steepness") if i or name != "bias"]
    flat.append(filled(output[:, 0], sizes[-1]))
    width, units = sizes[:2]
    target, common, vectors, shares, mask, owner = given
    wide = filled(target, width), filled(common, units), filled(vectors, width), filled(shares, units)
    owner = jnp.zeros(0, jnp.int32) if owner is None else owner
    return scores_of(tuple(sizes), jnp.concatenate(flat), *wide, mask, owner)


def up(units: int) -> int:
    return -(-units // UNITS) * UNITS


def filled(values: jax.Array, *sizes: int) -> jax.Array:
    """Return values with zeros up to the sizes of their last axes; a unit of zeros comes to zero."""
    own = values.shape[values.ndim - len(sizes) :]
    if own == sizes:
        return values
    more = [(0, to - size) for size, to in zip(own, sizes, strict=True)]
    return jnp.pad(values, [(0, 0)] * (values.ndim - len(sizes)) + more)


def plain(sizes: tuple[int, ...], flat: jax.Array, *given: jax.Array) -> jax.Array:
    """Return what scores_of does, in JAX."""
    target, common, vectors, shares, mask, owner = given
    at = 0

    def taken(*shape: int) -> jax.Array:
        nonlocal at
        at, first = at + math.prod(shape), at
        return flat[first:at].reshape(shape)

    x = of_histories(vectors, owner) * target[:, None]
    for i, (inputs, units) in enumerate(pairwise(sizes)):
        x = x @ taken(inputs, units)
        x = x + taken(units) if i else x + of_histories(shares, owner) + common[:, None]
        x = dice({name: taken(units) for name in ("slope", "mean", "steepness")}, x)
    return jnp.where(of_histories(mask, owner), x @ taken(sizes[-1]), 0)


def of_histories(values: jax.Array, owner: jax.Array) -> jax.Array:
    return values[owner] if owner.shape[0] else values


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def scores_of(sizes: tuple[int, ...], *given: jax.Array) -> jax.Array:
    def anywhere(_: jax.Array, *given: jax.Array) -> jax.Array:
        return plain(sizes, *given)

    return called("attend", anywhere, jnp.array(sizes, jnp.int32), *given)  # type: ignore[no-any-return]


def scores_forward(sizes: tuple[int, ...], *given: jax.Array) -> tuple[jax.Array, Saved]:
    return scores_of(sizes, *given), given


def scores_backward(sizes: tuple[int, ...], given: Saved, gradient: jax.Array) -> tuple[jax.Array | None, ...]:
    def anywhere(_: jax.Array, *arguments: jax.Array) -> Saved:
        *floats, mask, owner, gradient = arguments
        return jax.vjp(lambda *floats: plain(sizes, *floats, mask, owner), *floats)[1](gradient)  # type: ignore[no-any-return]

    return (*called("attend_gradients", anywhere, jnp.array(sizes, jnp.int32), *given, gradient), None, None)


scores_of.defvjp(scores_forward, scores_backward)
