"""The programs of rows on a device: a pull and a push, each from keys to rows and back, in one call.

What a call brings travels as one array: numbers first, then words of each key.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..messages import Touched
from ..rows.buckets import NONE, located
from ..rows.held import FRESH, MARKS, OWN, STAMP, Held, RowTally, beyond, created
from .program import Given
from .row_programs import ADDED, KEPT, RowPrograms
from .table_programs import DRAWN, STATISTICS

COLUMNS = ("slot", *STATISTICS)
"""The words of a row after its own, in order."""
UINTS = ("rows", "now", "since", *(name[1:] for name in DRAWN), "clock", "tally_rows", "tally_end", "tally_free")
FLOATS = ("base_rate", "examples", "pushed", "rate")
MOST_COUNTED = np.uint32(0xFFFFFFFF)
Words = NDArray[np.uint32]


class DeviceCall(NamedTuple):
    """What a call brings, taken apart.

    Attributes:
        numbers: by name.
        keys: uint32[size, 2].
        told: uint32[size, 3], counts, clicks and slots; of a pull, nothing.
    """

    numbers: Mapping[str, jax.Array]
    keys: jax.Array
    told: jax.Array

    @property
    def valid(self) -> jax.Array:
        """The keys that are there, bool[size]."""
        return jnp.arange(len(self.keys)) < self.numbers["rows"].astype(jnp.int32)

    @property
    def tally(self) -> RowTally:
        """How many rows there were."""
        return RowTally(*(self.numbers[f"tally_{name}"].astype(jnp.int32) for name in RowTally._fields))  # type: ignore[arg-type]


class DevicePull(NamedTuple):
    """What a pull returns: weights by table, what operators offer, and the updates that rows have had."""

    weights: dict[str, jax.Array]
    offered: jax.Array | None
    updates: jax.Array


class DevicePush(NamedTuple):
    """What a push returns beside the state.

    Attributes:
        tally: how many rows there are.
        left: bool[size], new keys that found no place.
        words, floats: of the rows, what was stored.
        report, failed, bounds: see Pushed.
    """

    tally: RowTally
    left: jax.Array
    words: jax.Array
    floats: tuple[jax.Array, ...]
    report: jax.Array | None
    failed: jax.Array | None
    bounds: tuple[jax.Array, jax.Array] | None


def packed(size: int, keys: NDArray[np.uint64], numbers: Mapping[str, float], touched: Touched | None = None) -> Words:
    """Return what a call brings, as one array; see unpacked."""
    n, width = len(keys), 2 if touched is None else 5
    begin = len(UINTS) + len(FLOATS)
    whole = np.zeros(begin + size * width, np.uint32)
    whole[: len(UINTS)] = [int(numbers[name]) for name in UINTS]
    whole[len(UINTS) : begin] = np.array([numbers[name] for name in FLOATS], np.float32).view(np.uint32)
    words = whole[begin:].reshape(size, width)
    words[:n, :2] = np.ascontiguousarray(keys).view(np.uint32).reshape(-1, 2)
    if touched is not None:
        words[:n, 2], words[:n, 3], words[:n, 4] = touched.counts, touched.clicks, touched.slots
    return whole


def unpacked(whole: jax.Array, width: int) -> DeviceCall:
    """Return what `packed` was given."""
    begin = len(UINTS) + len(FLOATS)
    numbers = {name: whole[at] for at, name in enumerate(UINTS)}
    numbers |= {name: jax.lax.bitcast_convert_type(whole[len(UINTS) + at], jnp.float32) for at, name in enumerate(FLOATS)}
    words = whole[begin:].reshape(-1, width)
    return DeviceCall(numbers, words[:, :2], words[:, 2:])


def found(programs: RowPrograms, held: Held, call: DeviceCall) -> tuple[Given, jax.Array, jax.Array, jax.Array]:
    """Return the columns of keys, as the inputs of programs, new ones as they start; their words, rows, and which are new."""
    rows = located(held.places, call.keys)
    rows = jnp.where(call.valid, rows, NONE)
    absent = call.valid & (rows == NONE)
    words = held.words.at[rows].get(mode="fill", fill_value=0)
    given: dict[str, jax.Array] = {}
    for name, column in zip(programs.stored, held.floats, strict=True):
        given[name] = column.at[rows].get(mode="fill", fill_value=0)
        if name in programs.initial and not programs.lead.gated:
            given[name] = started(programs, name, given[name], call.keys, absent)
    given |= {name: words[:, OWN + at] for at, name in enumerate(COLUMNS)}
    numbers = {f"@{name}": value for name, value in call.numbers.items()}
    numbers["@rows"] = call.numbers["rows"].astype(jnp.int32)
    given |= {**numbers, "slot": given["slot"].astype(jnp.uint16), "@mask": absent, "@keys": call.keys}
    return given, words, rows, absent


def started(programs: RowPrograms, name: str, column: jax.Array, keys: jax.Array, absent: jax.Array) -> jax.Array:
    """Return a column in which absent rows have their initial values, computed where there are some."""
    initial = programs.initial[name]
    values: jax.Array = jax.lax.cond(
        absent.any(), lambda: jnp.where(absent[:, None], initial(keys), column), lambda: jnp.asarray(column)
    )
    return values


class DevicePrograms:
    """The programs of rows on a device; tables share them.

    Args:
        programs: of rows anywhere.

    Attributes:
        pull: (state, what `packed` returned) -> DevicePull.
        push: (state, what `packed` returned, seen or None, what RowPrograms.brought returned) -> state, DevicePush.
        watched_push: the same, with bounds.
    """

    def __init__(self, programs: RowPrograms) -> None:
        self._programs = programs
        self.pull = jax.jit(self._pull)
        self.push = jax.jit(functools.partial(self._push, watched=False), donate_argnums=0)
        self.watched_push = jax.jit(functools.partial(self._push, watched=True), donate_argnums=0)

    def _pull(self, held: Held, whole: jax.Array) -> DevicePull:
        given, _, _, absent = found(self._programs, held, unpacked(whole, 2))
        pulled = self._programs.pulled(given)
        weights = {name: given[column] for name, column in self._programs.pulled_stored.items()} | pulled.weights
        return DevicePull(weights, pulled.offered, jnp.where(absent, 0, given["updates"]))

    def _push(
        self, held: Held, whole: jax.Array, seen: jax.Array | None, brought: Given, watched: bool
    ) -> tuple[Held, DevicePush]:
        call = unpacked(whole, 5)
        given, words, rows, new = found(self._programs, held, call)
        none = jnp.zeros(len(rows), jnp.uint32)
        told = {"@counts": call.told[:, 0], "@clicks": call.told[:, 1], "slot": call.told[:, 2].astype(jnp.uint16)}
        told |= {"@seen": none if seen is None else seen, "@trial": none != 0}
        missing = {one.pulled: jnp.zeros_like(brought[one.gradients]) for one in self._programs.tables.values()}
        done = self._programs.pushed({**given, **told, **missing, **brought}, watched)
        allowed = jnp.array(True) if done.failed is None else done.failed < 0
        held, rows, left, tally = made(held, call, rows, new & allowed)
        stored = self._stored(call, words, new)
        floats = tuple(done.columns[name] for name in self._programs.stored)
        at = beyond(call.valid & allowed & ~left & (rows != NONE), rows, len(held.words))
        columns = tuple(
            old.at[at].set(values, mode="drop", unique_indices=True) for old, values in zip(held.floats, floats, strict=True)
        )
        held = held._replace(words=held.words.at[at].set(stored, mode="drop", unique_indices=True), floats=columns)
        return held, DevicePush(tally, left, stored, floats, done.report, done.failed, done.bounds)

    def _stored(self, call: DeviceCall, words: jax.Array, new: jax.Array) -> jax.Array:
        """Return the words of rows as a push leaves them."""
        counts, clicks, slots = call.told[:, 0], call.told[:, 1], call.told[:, 2]
        old = {name: words[:, OWN + at] for at, name in enumerate(COLUMNS)}
        added = {name: counts if brought == "@counts" else clicks for name, brought in ADDED.items()}
        after = {name: counted(old[name], amount) for name, amount in {**added, "updates": jnp.uint32(1)}.items()}
        after |= {"slot": jnp.where(new, slots, old["slot"]), "last_seen": jnp.maximum(old["last_seen"], call.numbers["now"])}
        own = {STAMP: jnp.broadcast_to(call.numbers["clock"], counts.shape), MARKS: jnp.full_like(counts, FRESH)}
        own |= {at: call.keys[:, at] for at in range(2)}
        return jnp.stack([*(own[at] for at in range(OWN)), *(after[name] for name in COLUMNS)], 1)


def made(held: Held, call: DeviceCall, rows: jax.Array, new: jax.Array) -> tuple[Held, jax.Array, jax.Array, RowTally]:
    """Give new keys rows, where there are some; see `created`."""

    def some(held: Held) -> tuple[Held, jax.Array, jax.Array, RowTally]:
        held, mine, left, tally = created(held, call.keys, new, call.tally)
        return held, jnp.where(new, mine, rows), left, tally

    def none(held: Held) -> tuple[Held, jax.Array, jax.Array, RowTally]:
        return held, rows, jnp.zeros(len(rows), jnp.bool_), call.tally

    found: tuple[Held, jax.Array, jax.Array, RowTally] = jax.lax.cond(new.any(), some, none, held)
    return found


def counted(before: jax.Array, amount: jax.Array) -> jax.Array:
    """Return a counter and what is added to it; it stays at its end."""
    after = before + amount
    return jnp.where(after < before, MOST_COUNTED, after)


@functools.lru_cache(maxsize=KEPT)
def device_programs(programs: RowPrograms) -> DevicePrograms:
    """Return the programs of rows on a device."""
    return DevicePrograms(programs)
