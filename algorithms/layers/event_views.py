"""What events see of each other in strips, and of a prefix that layers have read before."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..blocks.events import Events, Prefix


class Sight(NamedTuple):
    """What each event sees: cells of its strip from one up to another, and a prefix.

    Attributes:
        low, high: int32[S, L]; where there is no event, it sees none.
        prefix: of P events.
    """

    low: jax.Array
    high: jax.Array
    prefix: Prefix | None = None

    def view(self) -> jax.Array:
        """Return whether each event sees each cell, bool[S, L, P + L]."""
        cell = jax.lax.iota(jnp.int32, self.low.shape[1])
        own = (cell >= self.low[:, :, None]) & (cell < self.high[:, :, None])
        if self.prefix is None:
            return own
        seen = jnp.broadcast_to(self.prefix.mask[:, None], (*self.low.shape, self.prefix.mask.shape[1]))
        return jnp.concatenate([seen, own], axis=2)


def sights(events: Events) -> tuple[Sight, Sight]:
    """Return what events see, those before them and themselves, and what questions see, those of earlier moments."""
    begun, place, opens = places_of(events)
    high = (jnp.where(events.mask, of, 0) for of in (place + 1, opens))
    before, earlier = (Sight(begun, of, events.prefix) for of in high)
    return before, earlier


def after(prefix: Prefix | None, layer: int, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the keys and values of a prefix and of events behind it."""
    if prefix is None:
        return k, v
    return jnp.concatenate([prefix.states[layer][0], k], axis=1), jnp.concatenate([prefix.states[layer][1], v], axis=1)


def places_of(events: Events) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return int32[S, L] columns of strips: where the window of each event begins, its own, and where its moment begins."""
    place = jnp.broadcast_to(jax.lax.iota(jnp.int32, events.window.shape[1]), events.window.shape)
    if events.begins is not None:
        window, moment = events.begins
        return window, place, moment

    def began(values: tuple[jax.Array, ...]) -> jax.Array:
        changes = sum((one[:, 1:] != one[:, :-1]) for one in values) > 0
        return jax.lax.cummax(jnp.where(jnp.pad(changes, ((0, 0), (1, 0)), constant_values=True), place, 0), axis=1)

    return began((events.window,)), place, began((events.window, events.moment))
