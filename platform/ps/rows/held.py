"""What a device holds of rows, as arrays of JAX, and the programs that change it. They take the arrays that they are given in
place of new ones (donated).

Numbers of rows are given out from a stack of those that were freed, then from `end` on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .buckets import NONE, empty, located, placed, without

LOW, HIGH, STAMP, MARKS = range(4)
OWN = 4
"""The words of a row before those of its columns: both halves of its key, when it was last pushed, and marks."""
LIVE, CHANGED = 1, (2, 4)
"""Marks: it is a row, and it has changed since the last snapshot of each of two readers."""
LEAST_PADDED = 64
FRESH = LIVE | CHANGED[0] | CHANGED[1]


class Held(NamedTuple):
    """The state of rows on a device.

    Attributes:
        places: the index of keys, see buckets.py.
        words: uint32[capacity, OWN + k].
        floats: float32[capacity, dim] each, a column.
        free: uint32[capacity], numbers that were freed, of which the first ones count.
    """

    places: jax.Array
    words: jax.Array
    floats: tuple[jax.Array, ...]
    free: jax.Array


class RowTally(NamedTuple):
    """How many rows there are, the number after the last, and how many numbers are free; of a program int32, else int."""

    rows: int
    end: int
    free: int


def new(buckets: int, capacity: int, num_words: int, dims: Sequence[int]) -> Held:
    """Return what holds no rows."""
    floats = tuple(jnp.zeros((capacity, dim), jnp.float32) for dim in dims)
    return Held(empty(buckets), jnp.zeros((capacity, OWN + num_words), jnp.uint32), floats, jnp.zeros(capacity, jnp.uint32))


def size_in_bytes(buckets: int, capacity: int, num_words: int, dims: Sequence[int]) -> int:
    """Return the bytes of what `new` returns."""
    return buckets * 192 + capacity * 4 * (OWN + num_words + sum(dims) + 1)


def beyond(chosen: jax.Array, rows: jax.Array, capacity: int) -> jax.Array:
    """Return rows where they are chosen, and else numbers of no row, all different, which scatters drop."""
    return jnp.where(chosen, rows, jnp.uint32(capacity) + jnp.arange(len(rows), dtype=jnp.uint32))


def created(held: Held, keys: jax.Array, wanted: jax.Array, tally: RowTally) -> tuple[Held, jax.Array, jax.Array, RowTally]:
    """Give keys that have no row one, without values.

    Returns:
        The state; rows uint32[n], of those keys alone; bool[n], keys that found no place in the index; the tally.
    """
    rank = (jnp.cumsum(wanted) - 1).astype(jnp.int32)
    count = wanted.sum(dtype=jnp.int32)
    used = jnp.minimum(count, tally.free)
    freed = held.free[jnp.maximum(tally.free - 1 - rank, 0)]
    rows = jnp.where(rank < tally.free, freed, (tally.end + rank - tally.free).astype(jnp.uint32))
    index, left = placed(held.places, keys, rows, wanted)
    back = left.sum(dtype=jnp.int32)
    place = (tally.free - used + jnp.cumsum(left) - 1).astype(jnp.uint32)
    free = held.free.at[beyond(left, place, len(held.free))].set(rows, mode="drop", unique_indices=True)
    counts = RowTally(tally.rows + count - back, tally.end + count - used, tally.free - used + back)  # type: ignore[arg-type]
    return held._replace(places=index, free=free), rows, left, counts


@partial(jax.jit, donate_argnums=0)
def create(
    held: Held, keys: jax.Array, wanted: jax.Array, stamp: int, tally: RowTally
) -> tuple[Held, jax.Array, jax.Array, RowTally]:
    """Do as `created` does, and give the rows their keys, and zeros."""
    held, rows, left, tally = created(held, keys, wanted, tally)
    at = beyond(wanted & ~left, rows, len(held.words))
    marks = jnp.stack([jnp.uint32(stamp), jnp.uint32(FRESH)])
    own = jnp.concatenate([keys, jnp.broadcast_to(marks, (len(keys), 2))], 1)
    words = held.words.at[at].set(0, mode="drop", unique_indices=True).at[at, :OWN].set(own, mode="drop", unique_indices=True)
    floats = tuple(column.at[at].set(0, mode="drop", unique_indices=True) for column in held.floats)
    return held._replace(words=words, floats=floats), rows, left, tally


@jax.jit
def find(index: jax.Array, keys: jax.Array) -> jax.Array:
    """Return the rows of keys, NONE where a key has none."""
    return located(index, keys)


@jax.jit
def read(matrix: jax.Array, rows: jax.Array) -> jax.Array:
    """Return rows of a matrix, zeros for NONE."""
    return matrix.at[rows].get(mode="fill", fill_value=0)


@jax.jit
def lives(words: jax.Array) -> jax.Array:
    """Return when each row was last pushed, and its marks, uint32[capacity, 2]."""
    return words[:, STAMP:OWN]


@partial(jax.jit, donate_argnums=0, static_argnums=1)
def write(held: Held, columns: tuple[int, ...], rows: jax.Array, words: jax.Array, floats: Sequence[jax.Array]) -> Held:
    """Set all words of rows, all different but NONE, and some of their float columns."""
    at = beyond(rows != NONE, rows, len(held.words))
    new = list(held.floats)
    for column, values in zip(columns, floats, strict=True):
        new[column] = new[column].at[at].set(values, mode="drop", unique_indices=True)
    return held._replace(words=held.words.at[at].set(words, mode="drop", unique_indices=True), floats=tuple(new))


@partial(jax.jit, donate_argnums=0)
def stamp(held: Held, keys: jax.Array, wanted: jax.Array, now: int) -> Held:
    """Note that rows of keys are in use now."""
    rows = located(held.places, keys)
    at = beyond(wanted & (rows != NONE), rows, len(held.words))
    return held._replace(words=held.words.at[at, STAMP].set(jnp.uint32(now), mode="drop", unique_indices=True))


@partial(jax.jit, donate_argnums=0)
def remove(held: Held, keys: jax.Array, rows: jax.Array, tally: RowTally) -> tuple[Held, RowTally]:
    """Remove rows, all different but NONE; some keys may not be in the index."""
    wanted = rows != NONE
    at, count = beyond(wanted, rows, len(held.words)), wanted.sum(dtype=jnp.int32)
    place = (tally.free + jnp.cumsum(wanted) - 1).astype(jnp.uint32)
    free = held.free.at[beyond(wanted, place, len(held.free))].set(rows, mode="drop", unique_indices=True)
    words = held.words.at[at, MARKS].set(0, mode="drop", unique_indices=True)
    counts = RowTally(tally.rows - count, tally.end, tally.free + count)  # type: ignore[arg-type]
    return held._replace(places=without(held.places, keys, wanted), words=words, free=free), counts


@partial(jax.jit, donate_argnums=0)
def unmark(held: Held, mark: int) -> Held:
    """Take a mark off all rows."""
    return held._replace(words=held.words.at[:, MARKS].set(held.words[:, MARKS] & ~jnp.uint32(mark)))


@partial(jax.jit, static_argnums=1)
def widened(held: Held, capacity: int) -> Held:
    """Return the state with room for more rows."""

    def longer(array: jax.Array) -> jax.Array:
        return jnp.zeros((capacity, *array.shape[1:]), array.dtype).at[: len(array)].set(array)

    return Held(held.places, longer(held.words), tuple(map(longer, held.floats)), longer(held.free))


@partial(jax.jit, static_argnums=1)
def indexed(words: jax.Array, buckets: int) -> tuple[jax.Array, jax.Array]:
    """Return a new index of all rows, and which found no place in it, bool[capacity]."""
    live = (words[:, MARKS] & LIVE) != 0
    return placed(empty(buckets), words[:, :2], jnp.arange(len(words), dtype=jnp.uint32), live)


def padded(n: int) -> int:
    """Return what arrays of n are padded to: a power of two."""
    return max(LEAST_PADDED, 1 << max(n - 1, 0).bit_length())


def longer(values: NDArray[Any], size: int) -> NDArray[Any]:
    """Return values [n, dim] as [size, dim], zeros after the last."""
    whole = np.zeros((size, *values.shape[1:]), values.dtype)
    whole[: len(values)] = values
    return whole


def halves(keys: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return keys as programs take them, padded."""
    return longer(np.ascontiguousarray(keys).view(np.uint32).reshape(-1, 2), padded(len(keys)))


def numbers(rows: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return rows as programs take them, padded with NONE."""
    whole = np.full(padded(len(rows)), NONE, np.uint32)
    whole[: len(rows)] = rows
    return whole


def wanted(n: int) -> NDArray[np.bool_]:
    """Return which of n padded keys are meant."""
    return np.arange(padded(n)) < n


def counted(tally: RowTally) -> RowTally:
    """Return the tally of a program as numbers of Python."""
    return RowTally(*(int(count) for count in jax.device_get(tally)))
