"""Attention of events to those that each sees: neighbouring cells of its strip, and a prefix that layers have read before.

XLA computes the half that nobody sees, and writes scores to memory several times. So on CPUs attention without a prefix is a
custom call, native/causal.cpp; elsewhere, and in exports, it is the same in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .event_views import Sight
from .lookups import Saved, called, is_portable

BUCKETS, BUCKET = 128, 0.301
"""Of times between events: bucket(s) = floor(log(max(1, s)) / BUCKET)."""
NEVER = -1e9


class Ago(NamedTuple):
    """How far back what is seen stands.

    Attributes:
        place: int32[S, L], where each event looks back from; when: int32[S, L], the time.
        of_keys: int32[P + L], the places of what is seen; seconds: int32[S, P + L], the times.
    """

    place: jax.Array
    when: jax.Array
    of_keys: jax.Array
    seconds: jax.Array


def softly(
    q: jax.Array, k: jax.Array, v: jax.Array, sight: Sight, itself: tuple[jax.Array, jax.Array] | None = None
) -> jax.Array:
    """Return attention by softmax, float32[S, L, heads, dim / heads].

    Args:
        k, v: float32[S, P + L, heads, dim / heads].
        itself: the key and value with which each question sees itself; None: events are among those in view.
    """
    if sight.prefix is None and not is_portable():
        seen, total = soft_runs(q, k, v, sight.low, sight.high)
    else:
        seen, total = softly_in_view(q, k, v, sight.view())
    if itself is None:
        return seen
    key, value = itself
    share = jax.nn.sigmoid((q * key).sum(axis=3) * q.shape[3] ** -0.5 - total)[..., None]
    return seen + share * (value - seen)


def softly_in_view(q: jax.Array, k: jax.Array, v: jax.Array, view: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the same of a view bool[S, L, P + L], and log(sum of exp(score)) of each, float32[S, L, heads]."""
    view = view[:, None]
    scores = jnp.where(view, jnp.einsum("slhd,smhd->shlm", q, k) * q.shape[3] ** -0.5, NEVER)
    most = scores.max(axis=3, keepdims=True)
    weights = jnp.where(view, jnp.exp(scores - most), 0)
    total = jnp.maximum(weights.sum(axis=3, keepdims=True), 1e-30)
    seen = jnp.einsum("shlm,smhd->slhd", weights / total, v)
    return seen, (most + jnp.log(total))[..., 0].transpose(0, 2, 1)


@jax.custom_vjp
def soft_runs(q: jax.Array, k: jax.Array, v: jax.Array, low: jax.Array, high: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the same of cells from `low` up to `high`, int32[S, L] each."""
    return called("soft_runs", soft_anywhere, q, k, v, low, high)  # type: ignore[no-any-return]


def soft_anywhere(q: jax.Array, k: jax.Array, v: jax.Array, low: jax.Array, high: jax.Array) -> tuple[jax.Array, jax.Array]:
    return softly_in_view(q, k, v, Sight(low, high).view())


def soft_forward(*given: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Saved]:
    found = soft_runs(*given)
    return found, (*given, *found)


def soft_backward(saved: Saved, gradient: tuple[jax.Array, jax.Array]) -> tuple[Any, ...]:
    def anywhere(q: jax.Array, k: jax.Array, v: jax.Array, low: jax.Array, high: jax.Array, *rest: jax.Array) -> Saved:
        return gradients_of(lambda q, k, v: soft_anywhere(q, k, v, low, high), (q, k, v), (rest[2], rest[3]))

    return (*called("soft_runs_gradients", anywhere, *saved, *gradient), None, None)


soft_runs.defvjp(soft_forward, soft_backward)


def by_silu(q: jax.Array, k: jax.Array, v: jax.Array, sight: Sight, place: jax.Array, time: jax.Array, ago: Ago) -> jax.Array:
    """Return attention by SiLU with biases, over the number of places, float32[S, L, heads, dim / heads].

    Args:
        k, v: float32[S, P + L, heads, dim / heads].
        place: float32[length], by how many places back; time: float32[BUCKETS].
    """
    if sight.prefix is None and not is_portable():
        return silu_runs(q, k, v, place, time, sight.low, sight.high, ago.place, ago.when, ago.seconds)
    return by_silu_in_view(q, k, v, place, time, sight.view(), ago)


def by_silu_in_view(
    q: jax.Array, k: jax.Array, v: jax.Array, place: jax.Array, time: jax.Array, view: jax.Array, ago: Ago
) -> jax.Array:
    back = jnp.clip(ago.place[:, :, None] - ago.of_keys[None, None, :], 0, place.shape[0] - 1)
    bias = place[back] + time[buckets(ago.when[:, :, None] - ago.seconds[:, None, :])]
    scores = jnp.einsum("slhd,smhd->shlm", q, k) + bias[:, None]
    weights = jnp.where(view[:, None], jax.nn.silu(scores), 0) / place.shape[0]
    return jnp.einsum("shlm,smhd->slhd", weights, v)


@jax.custom_vjp
def silu_runs(*given: jax.Array) -> jax.Array:
    """Return the same of q, k, v, place, time, and int32[S, L]: cells from one up to another, and places and times of Ago."""
    return called("silu_runs", silu_anywhere, *given)  # type: ignore[no-any-return]


def silu_anywhere(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    place: jax.Array,
    time: jax.Array,
    low: jax.Array,
    high: jax.Array,
    *back: jax.Array,
) -> jax.Array:
    at, when, seconds = back
    ago = Ago(at, when, jax.lax.iota(jnp.int32, at.shape[1]), seconds)
    return by_silu_in_view(q, k, v, place, time, Sight(low, high).view(), ago)


def silu_forward(*given: jax.Array) -> tuple[jax.Array, Saved]:
    return silu_runs(*given), given


def silu_backward(saved: Saved, gradient: jax.Array) -> tuple[Any, ...]:
    def anywhere(*given: jax.Array) -> Saved:
        return gradients_of(lambda *learned: silu_anywhere(*learned, *given[5:-1]), given[:5], given[-1])

    return (*called("silu_runs_gradients", anywhere, *saved, gradient), *(None,) * 5)


silu_runs.defvjp(silu_forward, silu_backward)


def gradients_of(function: Callable[..., Any], given: tuple[jax.Array, ...], outer: Any) -> Saved:
    return jax.vjp(function, *given)[1](outer)  # type: ignore[no-any-return]


def buckets(seconds: jax.Array) -> jax.Array:
    """Return the bucket of each time between two events."""
    return jnp.clip((jnp.log(jnp.maximum(1, seconds)) / BUCKET).astype(jnp.int32), 0, BUCKETS - 1)
