"""A network over the elements of histories, computed where there is an element: most histories are shorter than the longest."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .dense_layers import Parameters
from .lookups import PLAIN, gathered, of_examples

Network = Callable[[Parameters, jax.Array, tuple[jax.Array, ...]], jax.Array]
Elements = tuple[jax.Array, ...]
Arguments = tuple[Parameters, jax.Array, Elements, jax.Array, jax.Array | None]

TILES = 8
"""Parts of a batch's places, all of one size: the elements that are there are computed in as few as hold them."""
FEWEST = 4096
"""Lying of a batch that is worth it."""


def of_elements(
    network: Network,
    parameters: Parameters,
    target: jax.Array,
    elements: Elements,
    mask: jax.Array,
    owner: jax.Array | None,
) -> jax.Array:
    """Return what a network makes of each element of histories, float32[batch, L], 0 where there is none.

    On CPUs the elements that are there are put side by side first. A gradient computes the network again.

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
    return jax.lax.platform_dependent(  # type: ignore[no-any-return]
        parameters, target, elements, mask, owner, cpu=partial(packed, network), default=partial(whole, network)
    )


def places_of(mask: jax.Array, owner: jax.Array | None) -> jax.Array:
    """Return where examples have elements, bool[batch, L]."""
    return mask if owner is None else mask[owner]


def whole(
    network: Network,
    parameters: Parameters,
    target: jax.Array,
    elements: Elements,
    mask: jax.Array,
    owner: jax.Array | None,
) -> jax.Array:
    """Return the same, computed for every place."""
    own = tuple(of_examples(of, owner) for of in elements)
    return jnp.where(places_of(mask, owner), network(parameters, target[:, None], own), 0)


class Lying:
    """Where the elements that are there stand side by side, in tiles of one size.

    Attributes:
        size: of a tile.
        tiles: how many there are elements for.
        beside: int32[1, batch * L], where the element of a place stands among those that are there.
    """

    def __init__(self, mask: jax.Array, owner: jax.Array | None) -> None:
        there = mask.reshape(-1)
        before = jnp.cumsum(there.astype(jnp.int32))
        self._length, self._last, self._owner = mask.shape[1], mask.size - 1, owner
        self.size = -(-mask.size // TILES)
        self.tiles = (before[-1] + self.size - 1) // self.size
        self.beside = jnp.maximum(before - 1, 0)[None]
        nowhere = jnp.full(self.size * TILES, mask.size, jnp.int32)
        at = nowhere.at[jnp.where(there, before - 1, len(nowhere))]
        self._at = at.set(jax.lax.iota(jnp.int32, mask.size), mode="drop")

    def of_tile(self, tile: jax.Array) -> jax.Array:
        """Return the places of the elements of a tile, int32[size], `batch * L` where there is none."""
        return jax.lax.dynamic_slice_in_dim(self._at, tile * self.size, self.size)

    def targets(self, at: jax.Array, target: jax.Array) -> jax.Array:
        """Return the targets of places, [size, width]."""
        return gathered(target, jnp.minimum(at, self._last)[None] // self._length)[:, 0]

    def elements(self, at: jax.Array, elements: Elements) -> Elements:
        """Return the elements of places, [size, k] each."""
        place = jnp.minimum(at, self._last)
        if self._owner is not None:
            place = self._owner[place // self._length] * self._length + place % self._length
        return tuple(gathered(of.reshape(-1, of.shape[-1]), place[None])[:, 0] for of in elements)

    def empty(self, *width: int) -> jax.Array:
        """Return an array for all tiles."""
        return jnp.zeros((self.size * TILES, *width))

    def put(self, into: jax.Array, tile: jax.Array, values: jax.Array) -> jax.Array:
        """Return such an array with the values of one tile."""
        return jax.lax.dynamic_update_slice_in_dim(into, values, tile * self.size, 0)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def packed(
    network: Network,
    parameters: Parameters,
    target: jax.Array,
    elements: Elements,
    mask: jax.Array,
    owner: jax.Array | None,
) -> jax.Array:
    """Return the same, computed for the elements that are there."""
    there = places_of(mask, owner)
    places = Lying(there, owner)

    def compute(tile: jax.Array, found: jax.Array) -> jax.Array:
        at = places.of_tile(tile)
        return places.put(found, tile, network(parameters, places.targets(at, target), places.elements(at, elements)))

    found = jax.lax.fori_loop(0, places.tiles, compute, places.empty())
    return jnp.where(there, found[places.beside[0]].reshape(there.shape), 0)


def packed_forward(network: Network, *arguments: object) -> tuple[jax.Array, object]:
    return packed(network, *arguments), arguments


def packed_backward(network: Network, arguments: Arguments, gradient: jax.Array) -> tuple[object, ...]:
    parameters, target, elements, mask, owner = arguments
    there, of_places = places_of(mask, owner), gradient.reshape(-1)
    places, shared = Lying(there, owner), owner is not None

    def compute(tile: jax.Array, found: tuple[Any, ...]) -> tuple[Any, ...]:
        summed, kept = found
        at = places.of_tile(tile)

        def scores(parameters: Parameters, target: jax.Array, elements: Elements) -> jax.Array:
            own = places.elements(at, elements) if shared else elements
            return network(parameters, places.targets(at, target), own)

        own = elements if shared else places.elements(at, elements)
        *more, of_own = jax.vjp(scores, parameters, target, own)[1](of_places.at[at].get(mode="fill", fill_value=0))
        if shared:
            return jax.tree.map(jnp.add, summed, (*more, of_own)), kept
        return jax.tree.map(jnp.add, summed, tuple(more)), jax.tree.map(
            lambda into, one: places.put(into, tile, one), kept, of_own
        )

    zeros = jax.tree.map(jnp.zeros_like, (dict(parameters), target, *([elements] if shared else [])))
    empty = () if shared else tuple(places.empty(of.shape[-1]) for of in elements)
    (of_parameters, of_target, *rest), kept = jax.lax.fori_loop(0, places.tiles, compute, (zeros, empty))
    if shared:
        return of_parameters, of_target, rest[0], None, None
    lying = (jnp.where(there.reshape(-1, 1), gathered(one, places.beside)[:, 0], 0) for one in kept)
    return of_parameters, of_target, tuple(map(jnp.reshape, lying, (of.shape for of in elements))), None, None


packed.defvjp(packed_forward, packed_backward)
