"""The rows of a merged version: what becomes of each column of each row.

With base b, sources x and their changes d = x - b, a column becomes b + the sum of d, or b + the mean of d, as Column.merge
says; the mean goes by how often each source has seen the feature since, or by examples. Statistics add up, and saturate. Sums
are float64, rounded once.

Source: McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017, row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...warehouse.entries import TableEntry
from ..ps.compiled.table_programs import Programs
from .apply import padded

SUMMED = ("count", "updates", "shows", "clicks")
MOST = float(2**32 - 1)
Arrays = Mapping[str, NDArray[Any]]
Doubles = NDArray[np.float64]


class MergeRule(NamedTuple):
    """How a statement merges: means by `count` of each row or by `examples`; `state`, as columns say, or `weights` by mean."""

    by: str = "count"
    using: str = "weights"


class MergeTally:
    """What is told of the sources: rows, those that one alone has, and how far weights have moved."""

    def __init__(self, sources: int) -> None:
        self.rows, self.only, self.moved = np.zeros(sources, np.int64), np.zeros(sources, np.int64), np.zeros(sources)
        self.merged = 0

    def add(self, present: NDArray[np.bool_], moved: Doubles, kept: int) -> None:
        """Add a window: which source has which row, bool[sources, n], and the squares of what each has changed."""
        self.rows += present.sum(1)
        self.only += (present & (present.sum(0) == 1)).sum(1)
        self.moved += moved
        self.merged += kept


def merged_rows(
    sources: Sequence[Arrays],
    base: Arrays | None,
    by_examples: Doubles,
    entry: TableEntry,
    programs: Programs,
    rule: MergeRule,
    tally: MergeTally | None,
) -> dict[str, NDArray[Any]]:
    """Return the merged rows of a window, by ascending key: those that a source has."""
    keys = np.unique(np.concatenate([one["key"] for one in sources]))
    present = np.stack([np.isin(keys, one["key"]) for one in sources])
    before = begins_with(keys, base, entry, programs)
    apart = [aligned(one, keys, before, there) for one, there in zip(sources, present, strict=True)]
    seen = np.stack([(one["count"] - before["count"]).clip(0) for one in apart])
    shares = shares_of(seen, present, by_examples, rule)
    merged: dict[str, NDArray[Any]] = {"key": keys, "slot": np.max([one["slot"] for one in apart], axis=0).astype(np.uint16)}
    for name in SUMMED:
        total = before[name] + np.sum([one[name] - before[name] for one in apart], axis=0)
        merged[name] = total.clip(0, MOST).astype(np.uint32)
    merged["last_seen"] = np.max([one["last_seen"] for one in apart], axis=0).astype(np.uint32)
    floats = {}
    for name in entry.columns:
        how = programs.chain.columns[name].merge if name in programs.stored else "mean"
        floats[name] = column_of(how, before[name], [one[name] for one in apart], shares, present)
    if rule.using == "state" and programs.chain.merge is not None:
        floats = dict(programs.chain.merge(floats, before, apart))
    merged |= {name: values.astype(np.float32) for name, values in floats.items()}
    if rule.using == "weights" and "w" not in programs.stored:
        merged |= programs.weighing({name: merged[name] for name in programs.stored}, merged["w"])
    if tally is not None:
        tally.add(present, np.array([((one["w"] - before["w"]) ** 2).sum() for one in apart]), len(keys))
    return merged


def begins_with(keys: NDArray[np.uint64], base: Arrays | None, entry: TableEntry, programs: Programs) -> dict[str, Doubles]:
    """Return what rows had before any source went on, in float64: the base's, or what a new row begins with."""
    n = len(keys)
    found = {name: np.zeros(n) for name in ("slot", *SUMMED, "last_seen")}
    found |= {name: np.zeros((n, dim)) for name, dim in entry.columns.items()}
    halves = np.ascontiguousarray(keys).view(np.uint32).reshape(-1, 2)
    size = 1 << max(6, (n - 1).bit_length())
    starts = dict(programs.initial)
    if programs.spec.init is not None and "w" not in starts:
        init = programs.spec.init
        found["w"] = np.asarray(init(programs.seed, jnp.asarray(padded(halves, size))), np.float64)[:n]
    for name, initial in starts.items():
        found[name] = np.asarray(initial(padded(halves, size)), np.float64)[:n]
    if base is not None and len(base["key"]):
        at = np.searchsorted(base["key"], keys).clip(0, len(base["key"]) - 1)
        there = base["key"][at] == keys
        for name, values in found.items():
            values[there] = base[name][at[there]]
    return found


def aligned(
    one: Arrays, keys: NDArray[np.uint64], before: Mapping[str, Doubles], there: NDArray[np.bool_]
) -> dict[str, Doubles]:
    """Return a source's rows of some keys in float64; where it has none, nothing has changed."""
    found = {}
    at = np.searchsorted(one["key"], keys[there])
    for name, values in before.items():
        found[name] = values.copy()
        if len(at):
            found[name][there] = one[name][at]
    return found


def shares_of(seen: Doubles, present: NDArray[np.bool_], by_examples: Doubles, rule: MergeRule) -> Doubles:
    """Return the weight of each source in the mean of each row, float64[sources, n]."""
    if rule.by == "examples":
        return np.broadcast_to(by_examples[:, None], seen.shape)
    total = seen.sum(0)
    equal = present / np.maximum(present.sum(0), 1)
    found: Doubles = np.where(total > 0, seen / np.maximum(total, 1), equal)
    return found


def column_of(how: str, before: Doubles, apart: Sequence[Doubles], shares: Doubles, present: NDArray[np.bool_]) -> Doubles:
    """Return a merged column, float64[n, dim]."""
    if how in ("most", "least"):
        extreme = np.max if how == "most" else np.min
        absent = -np.inf if how == "most" else np.inf
        found: Doubles = extreme(
            [np.where(there[:, None], one, absent) for one, there in zip(apart, present, strict=True)], axis=0
        )
        return found
    weights = np.ones_like(shares) if how == "sum" else shares
    changes = [weight[:, None] * (one - before) for one, weight in zip(apart, weights, strict=True)]
    total: Doubles = before + np.sum(changes, axis=0)
    return total
