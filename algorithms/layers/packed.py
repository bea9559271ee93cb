"""A network over the elements of histories, computed where there is an element: most histories are shorter than the longest."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from .dense import Parameters
from .lookups import PLAIN, gathered, of_examples

Network = Callable[[Parameters, jax.Array, tuple[jax.Array, ...]], jax.Array]
Arguments = tuple[Parameters, jax.Array, tuple[jax.Array, ...], jax.Array, jax.Array | None]

SHARES = (1 / 8, 1 / 4, 1 / 2)
"""Of a batch's places: the network is compiled for so many elements, and for all."""
FEWEST = 4096
"""Places of a batch that is worth it."""


def of_elements(
    network: Network,
    parameters: Parameters,
    target: jax.Array,
    elements: tuple[jax.Array, ...],
    mask: jax.Array,
    owner: jax.Array | None,
) -> jax.Array:
    """Return what a network makes of each element of histories, float32[batch, L], 0 where there is none.

    On CPUs the elements that are there are put side by side first, as many as the smallest of a few sizes takes. A gradient
    computes the network again, for that size alone.

    Args:
        network: (parameters, targets float32[..., width], elements float32[..., k]) -> float32[...], each of its own element.
        parameters: what the network learns.
        target: float32[batch, width], what the elements of an example have in common.
        elements: float32[n, L, k] each.
        mask: bool[n, L].
        owner: as History has it: n histories, each of several examples; None: a history of each example, n = batch.
    """
    if PLAIN.get() or target.shape[0] * mask.shape[1] < FEWEST:
        return whole(network, parameters, target, elements, mask, owner)
    packed = partial(chosen, network)
    return jax.lax.platform_dependent(  # type: ignore[no-any-return]
        parameters, target, elements, mask, owner, cpu=packed, default=partial(whole, network)
    )


def places_of(mask: jax.Array, owner: jax.Array | None) -> jax.Array:
    """Return where examples have elements, bool[batch, L]."""
    return mask if owner is None else mask[owner]


def whole(
    network: Network,
    parameters: Parameters,
    target: jax.Array,
    elements: tuple[jax.Array, ...],
    mask: jax.Array,
    owner: jax.Array | None,
) -> jax.Array:
    """Return the same, computed for every place."""
    own = tuple(of_examples(of, owner) for of in elements)
    return jnp.where(places_of(mask, owner), network(parameters, target[:, None], own), 0)


def packed(
    network: Network,
    size: int,
    at: jax.Array,
    parameters: Parameters,
    target: jax.Array,
    elements: tuple[jax.Array, ...],
    mask: jax.Array,
    owner: jax.Array | None,
) -> jax.Array:
    """Return the same, computed for `size` elements, no fewer than are there; `at`, int32[batch * L], has the place of each."""
    shape = target.shape[0], mask.shape[1]
    at, places = at[:size], at.shape[0]
    place = jnp.minimum(at, places - 1)[None]
    example = place // shape[1]
    targets = gathered(target, example)[:, 0]
    if owner is not None:
        place = owner[example] * shape[1] + place % shape[1]
    found = network(parameters, targets, tuple(gathered(of.reshape(mask.size, -1), place)[:, 0] for of in elements))
    return jnp.zeros(places).at[at].set(found, mode="drop").reshape(shape)


def by_size(network: Network, mask: jax.Array) -> tuple[jax.Array, jax.Array, list[Callable[..., jax.Array]]]:
    """Return which of some functions takes all elements that are there, where these are, and the functions.

    Args:
        mask: bool[batch, L].
    """
    sizes, there = [int(mask.size * share) for share in SHARES], mask.reshape(-1)
    before = jnp.cumsum(there.astype(jnp.int32))
    at = jnp.full(mask.size, mask.size, jnp.int32).at[jnp.where(there, before - 1, mask.size)]
    small = [partial(packed, network, size) for size in sizes]
    which = (jnp.array(sizes) < before[-1]).sum()
    return which, at.set(jax.lax.iota(jnp.int32, mask.size), mode="drop"), [*small, lambda at, *given: whole(network, *given)]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def chosen(
    network: Network,
    parameters: Parameters,
    target: jax.Array,
    elements: tuple[jax.Array, ...],
    mask: jax.Array,
    owner: jax.Array | None,
) -> jax.Array:
    which, at, functions = by_size(network, places_of(mask, owner))
    return jax.lax.switch(which, functions, at, parameters, target, elements, mask, owner)  # type: ignore[no-any-return]


def chosen_forward(network: Network, *arguments: object) -> tuple[jax.Array, object]:
    return chosen(network, *arguments), arguments


def chosen_backward(network: Network, arguments: Arguments, gradient: jax.Array) -> tuple[object, ...]:
    *learned, mask, owner = arguments
    which, at, functions = by_size(network, places_of(mask, owner))

    def of(function: Callable[..., jax.Array], at: jax.Array, gradient: jax.Array, *learned: object) -> tuple[object, ...]:
        return jax.vjp(lambda *given: function(at, *given, mask, owner), *learned)[1](gradient)  # type: ignore[no-any-return]

    found = jax.lax.switch(which, [partial(of, function) for function in functions], at, gradient, *learned)
    return *found, None, None


chosen.defvjp(chosen_forward, chosen_backward)
