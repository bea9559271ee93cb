"""An index of keys in JAX: buckets of sixteen places, of which each key has two.

A key lies in one of its two buckets. Keys that come together are placed at once: sorted by the bucket that they go to, the n-th
of a bucket takes its n-th free place. Keys are uint32[n, 2], low and high half: JAX has no 64-bit integers.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

PLACES = 16
NONE = np.uint32(0xFFFFFFFF)
LOW, HIGH, ROW = 0, 1, 2
"""What a bucket holds, PLACES of each; ROW is NONE where a place is free."""
ROUNDS = 3


def empty(buckets: int) -> jax.Array:
    """Return an index without keys; `buckets` is a power of two."""
    index: jax.Array = jnp.zeros((buckets, 3, PLACES), jnp.uint32).at[:, ROW].set(NONE)
    return index


def stirred(bits: jax.Array) -> jax.Array:
    """Return well-mixed 32-bit integers.

    Source: Ettinger's lowbias32 with the constants found by "TheIronBorn".
    """
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x21F0AAAD)
    bits = (bits ^ (bits >> 15)) * jnp.uint32(0xD35A2D97)
    return bits ^ (bits >> 15)


def buckets_of(index: jax.Array, keys: jax.Array) -> jax.Array:
    """Return the two buckets of each key, int32[n, 2]."""
    low, high = keys[:, 0], keys[:, 1]
    both = jnp.stack([stirred(low ^ stirred(high)), stirred(high ^ stirred(low ^ jnp.uint32(0x9E3779B9)))], 1)
    found: jax.Array = (both & jnp.uint32(len(index) - 1)).astype(jnp.int32)
    return found


def matches(index: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the buckets of keys, what they hold of rows, uint32[n, 2, PLACES], and where that is the key's row."""
    at = buckets_of(index, keys)
    held = index[at]
    rows = held[:, :, ROW]
    same = (held[:, :, LOW] == keys[:, :1, None]) & (held[:, :, HIGH] == keys[:, 1:, None]) & (rows != NONE)
    return at, rows, same


def located(index: jax.Array, keys: jax.Array) -> jax.Array:
    """Return the rows of keys, uint32[n], NONE where a key has none."""
    _, rows, same = matches(index, keys)
    return jnp.where(same, rows, NONE).min(axis=(1, 2))


def placed(index: jax.Array, keys: jax.Array, rows: jax.Array, wanted: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Put keys, all different and none of them there, into the index, and return it, and which keys found no place.

    Args:
        wanted: bool[n], the keys that are meant.
    """
    at, held, _ = matches(index, keys)
    taken = (held != NONE).sum(axis=2)
    emptier = jnp.argmin(taken, axis=1)
    left = wanted
    for number in range(ROUNDS):
        bucket = jnp.take_along_axis(at, ((emptier + number) % 2)[:, None], 1)[:, 0]
        index, left = into(index, keys, rows, left, bucket) if not number else again(index, keys, rows, left, bucket)
    return index, left


def again(
    index: jax.Array, keys: jax.Array, rows: jax.Array, left: jax.Array, bucket: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Do as `into` does, where keys are left."""
    given = (index, keys, rows, left, bucket)
    found: tuple[jax.Array, jax.Array] = jax.lax.cond(
        left.any(), into, lambda index, keys, rows, left, at: (index, left), *given
    )
    return found


def into(index: jax.Array, keys: jax.Array, rows: jax.Array, left: jax.Array, bucket: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Put the keys that are left into a bucket each, as far as there is room, and return which are left then."""
    n, many = len(keys), len(index)
    goal = jnp.where(left, bucket, many)
    order = jnp.argsort(goal, stable=True)
    lying, at = goal[order], jnp.arange(n, dtype=jnp.int32)
    begins = jnp.where(jnp.concatenate([jnp.ones(1, jnp.bool_), lying[1:] != lying[:-1]]), at, 0)
    rank = jnp.zeros(n, jnp.int32).at[order].set(at - jax.lax.cummax(begins), unique_indices=True)
    free = index[bucket, ROW] == NONE
    right = free & (jnp.cumsum(free, axis=1) == rank[:, None] + 1)
    found = left & right.any(axis=1)
    entry = jnp.stack([keys[:, 0], keys[:, 1], rows], 1)
    index = index.at[jnp.where(found, bucket, many + at), :, jnp.argmax(right, axis=1)].set(
        entry, mode="drop", unique_indices=True
    )
    return index, left & ~found


def without(index: jax.Array, keys: jax.Array, wanted: jax.Array) -> jax.Array:
    """Return the index without keys, all different."""
    n = len(keys)
    at, _, same = matches(index, keys)
    which = jnp.argmax(same.reshape(n, -1), axis=1)
    bucket = jnp.take_along_axis(at, (which // PLACES)[:, None], 1)[:, 0]
    found = wanted & same.any(axis=(1, 2))
    goal = jnp.where(found, bucket, len(index) + jnp.arange(n, dtype=jnp.int32))
    return index.at[goal, ROW, which % PLACES].set(NONE, mode="drop", unique_indices=True)
