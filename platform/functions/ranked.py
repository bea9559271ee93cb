"""Folds that keep the rows of the greatest or least values: top, extremes, nearest. Equal values go by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import OptionError, Subject
from ..options import Part, option
from .base import Fold, Piece, RowTable, State, groups_by, measure, numbers

LAST_KEY = np.uint64(0xFFFFFFFFFFFFFFFF)
Doubles = NDArray[np.float64]


def leaders(values: Doubles, keys: NDArray[np.uint64], slots: NDArray[np.uint16], k: int) -> State:
    """Return the k greatest values with their keys and slots, padded by minus infinity; what is no number is left out."""
    good = np.isfinite(values)
    values, keys, slots = values[good], keys[good], slots[good]
    if len(values) > 4 * k:  # most need no sorting
        least = np.partition(values, len(values) - k)[len(values) - k]
        near = values >= least
        values, keys, slots = values[near], keys[near], slots[near]
    best = np.lexsort((keys, -values))[:k]
    missing = k - len(best)
    return {
        "value": np.concatenate([values[best], np.full(missing, -np.inf)]),
        "key": np.concatenate([keys[best], np.full(missing, LAST_KEY)]),
        "slot": np.concatenate([slots[best], np.zeros(missing, np.uint16)]),
    }


def merged(one: State, other: State) -> State:
    """Return the leaders of two states of one size."""
    value, key, slot = (np.concatenate([one[name], other[name]]) for name in ("value", "key", "slot"))
    return leaders(value, key, slot, len(one["value"]))


def listed(state: State, table: RowTable, name: str, sign: float = 1.0) -> pa.Table:
    """Return leaders as rows: slot, key, and the value by a name."""
    there = np.isfinite(state["value"])
    names = {number: slot for slot, number in table.slots}
    slots = pa.array([names.get(number) for number in state["slot"][there].tolist()], pa.string())
    return pa.table({"slot": slots, "key": state["key"][there].view(np.int64), name: sign * state["value"][there]})


def none(k: int) -> State:
    return leaders(np.empty(0), np.empty(0, np.uint64), np.empty(0, np.uint16), k)


@dataclass(frozen=True)
class TopOptions:
    """Options of top."""

    k: int = option(10, "how many rows", minimum=1, maximum=1_000_000)
    of: str = option("abs_w", "by what: abs_w, count, updates, shows, clicks, or a column of one float such as w, n, z")
    order: str = option("greatest", "which end", choices=("greatest", "least"))
    slot: str = option("", "features of this slot alone")
    table: str = option("", "whose rows; the first table's by default")


def top(options: TopOptions, table: RowTable) -> Fold:
    """Find the k rows whose value is greatest, or least; equal ones by key, the smaller first.

    Columns: slot, key, value.
    """
    of, columns = measure(options.of, table, Subject("FOLD", "top", "of"))
    number = table.number(options.slot, Subject("FOLD", "top", "slot")) if options.slot else None
    sign = 1.0 if options.order == "greatest" else -1.0

    def add(state: State, piece: Piece) -> State:
        values, keys, slots = sign * of(piece), piece["key"], piece["slot"]
        if number is not None:
            own = slots == number
            values, keys, slots = values[own], keys[own], slots[own]
        return merged(state, leaders(values, keys, slots, options.k))

    return Fold(none(options.k), add, merged, lambda state: listed(state, table, "value", sign), columns)


@dataclass(frozen=True)
class ExtremesOptions:
    """Options of extremes."""

    of: str = option("abs_w", "of what: abs_w, count, updates, shows, clicks, or a column of one float such as w, n, z")
    by: str = option("all", "a row for each slot, or one for all", choices=("all", "slot"))
    table: str = option("", "whose rows; the first table's by default")


def extremes(options: ExtremesOptions, table: RowTable) -> Fold:
    """Find the least and the greatest value, and the keys that have them; equal ones by key, the smaller first.

    Columns: slot where `by` says so, least, least_key, greatest, greatest_key; NULL where there is no row.
    """
    of, columns = measure(options.of, table, Subject("FOLD", "extremes", "of"))
    groups = groups_by(options.by, table)
    sides = ("least", -1.0), ("greatest", 1.0)

    def add(state: State, piece: Piece) -> State:
        values, places, keys = of(piece), groups.places(piece), piece["key"]
        good = np.isfinite(values)
        values, places, keys = values[good], places[good], keys[good]
        own = {name: array.copy() for name, array in zero.items()}
        for name, sign in sides:
            order = np.lexsort((keys, -sign * values, places))
            first = order[np.flatnonzero(np.diff(places[order], prepend=-1))]
            own[name][places[first]], own[f"{name}_key"][places[first]] = sign * values[first], keys[first]
        return merge(state, own)

    def merge(one: State, other: State) -> State:
        found = {}
        for name, _ in sides:
            key = f"{name}_key"
            tie = (one[name] == other[name]) & (other[key] < one[key])
            takes = (other[name] > one[name]) | tie
            found[name] = np.where(takes, other[name], one[name])
            found[key] = np.where(takes, other[key], one[key])
        return found

    def result(state: State) -> pa.Table:
        columns = {}
        for name, sign in sides:
            absent = np.isinf(state[name])
            columns[name] = pa.array(sign * state[name], mask=absent)
            columns[f"{name}_key"] = pa.array(state[f"{name}_key"].view(np.int64), mask=absent)
        return groups.table(columns)

    n = len(groups)
    zero: dict[str, NDArray[Any]] = {}
    for name, _ in sides:
        zero |= {name: np.full(n, -np.inf), f"{name}_key": np.full(n, LAST_KEY)}
    return Fold(zero, add, merge, result, columns)


@dataclass(frozen=True)
class NearestOptions:
    """Options of nearest."""

    to: tuple[float, ...] = option((), "the vector, as many numbers as the table's rows have: (0.1, -0.3)")
    k: int = option(10, "how many rows", minimum=1, maximum=1_000_000)
    by: str = option("dot", "the score: the product, or its cosine", choices=("dot", "cosine"))
    slot: str = option("", "features of this slot alone")
    table: str = option("", "whose rows; the first table's by default")


def nearest(options: NearestOptions, table: RowTable) -> Fold:
    """Find the k rows whose weights have the greatest product with a vector; equal ones by key, the smaller first.

    Columns: slot, key, score.

    Raises:
        OptionError: the vector has another length than the rows.
    """
    subject = Subject("FOLD", "nearest", "to")
    if len(options.to) != table.dim:
        message = f"{subject} has {len(options.to)} numbers; rows of table {table.name} have {table.dim}. Give as many."
        raise OptionError(message, subject=subject)
    query = numbers(options.to, subject)
    number = table.number(options.slot, Subject("FOLD", "nearest", "slot")) if options.slot else None

    def add(state: State, piece: Piece) -> State:
        w, keys, slots = piece["w"], piece["key"], piece["slot"]
        if number is not None:
            own = slots == number
            w, keys, slots = w[own], keys[own], slots[own]
        wide = w.astype(np.float64)
        scores = (wide * query).sum(1)
        if options.by == "cosine":
            sizes = np.sqrt((wide * wide).sum(1)) * np.sqrt((query * query).sum())
            scores = np.divide(scores, sizes, out=np.zeros_like(scores), where=sizes > 0)
        return merged(state, leaders(scores, keys, slots, options.k))

    return Fold(none(options.k), add, merged, lambda state: listed(state, table, "score"))


TOP = Part("top", TopOptions, top)
EXTREMES = Part("extremes", ExtremesOptions, extremes)
NEAREST = Part("nearest", NearestOptions, nearest)
