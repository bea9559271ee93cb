"""Folds that say how values are spread: quantiles, histogram."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import OptionError, Subject
from ..options import Part, option
from .base import Fold, Piece, RowTable, State, measure, numbers, plus

SAMPLE = 10_000
LAST = np.uint64(0xFFFFFFFFFFFFFFFF)


def mixed(keys: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return a well-mixed 64-bit integer for each key, another for each key.

    Source: the finalizer of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    """
    bits = keys + np.uint64((0x9E3779B97F4A7C15 * (seed + 1)) % (1 << 64))
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@dataclass(frozen=True)
class QuantilesOptions:
    """Options of quantiles."""

    of: str = option("abs_w", "of what: abs_w, count, updates, shows, clicks, or a column of one float such as w, n, z")
    at: tuple[float, ...] = option((0.0, 0.25, 0.5, 0.75, 1.0), "which quantiles, numbers from 0 to 1")
    seed: int = option(7, "seed of the sample", minimum=0, maximum=2**31 - 1)
    table: str = option("", "whose rows; the first table's by default")


def quantiles(options: QuantilesOptions, table: RowTable) -> Fold:
    """Find quantiles of a value: of all rows up to 10,000, beyond that of a sample of so many, chosen by keys and seed alone.

    Columns: at, value, as `percentile` interpolates, and rows: how many have a value. Of a sample, 95 of 100 times the rank is
    wrong by 1.4 % of the rows or less.

    Source: bottom-k samples, Cohen and Kaplan, "Summarizing data using bottom-k sketches", PODC 2007.

    Raises:
        OptionError: a quantile is not between 0 and 1.
    """
    subject = Subject("FOLD", "quantiles", "at")
    at = numbers(options.at, subject)
    if not len(at) or at.min() < 0 or at.max() > 1:
        raise OptionError(f"{subject} expects numbers from 0 to 1, like (0.5, 0.99), got {options.at}.", subject=subject)
    of, columns = measure(options.of, table, Subject("FOLD", "quantiles", "of"))

    def least(hashes: NDArray[np.uint64], values: NDArray[np.float64], rows: NDArray[np.int64]) -> State:
        chosen = np.argsort(hashes, kind="stable")[:SAMPLE]
        return {"hash": hashes[chosen], "value": values[chosen], "rows": rows}

    def add(state: State, piece: Piece) -> State:
        values = of(piece)
        good = np.isfinite(values)
        hashes, values = mixed(piece["key"][good], options.seed), values[good]
        near = hashes <= state["hash"][-1]
        rows = np.array([len(values)], np.int64)
        return merge(state, {"hash": hashes[near], "value": values[near], "rows": rows})

    def merge(one: State, other: State) -> State:
        hashes, values = (np.concatenate([one[name], other[name]]) for name in ("hash", "value"))
        return least(hashes, values, one["rows"] + other["rows"])

    def result(state: State) -> pa.Table:
        (rows,) = state["rows"].tolist()
        kept = state["value"][: min(rows, SAMPLE)]
        found = np.quantile(kept, at).tolist() if rows else [None] * len(at)
        return pa.table({"at": at, "value": pa.array(found, pa.float64()), "rows": [rows] * len(found)})

    return Fold(
        {"hash": np.full(SAMPLE, LAST), "value": np.zeros(SAMPLE), "rows": np.zeros(1, np.int64)}, add, merge, result, columns
    )


@dataclass(frozen=True)
class HistogramOptions:
    """Options of histogram."""

    of: str = option("abs_w", "of what: abs_w, count, updates, shows, clicks, or a column of one float such as w, n, z")
    edges: tuple[float, ...] = option((0.0, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0), "where bins begin and end, ascending")
    table: str = option("", "whose rows; the first table's by default")


def histogram(options: HistogramOptions, table: RowTable) -> Fold:
    """Count rows by bins of a value: low <= value < high, with a bin below the first edge and one from the last edge on.

    Columns: low, high, NULL at the ends, and rows. What is no number is in none.

    Raises:
        OptionError: the edges do not ascend.
    """
    subject = Subject("FOLD", "histogram", "edges")
    edges = numbers(options.edges, subject)
    if not len(edges) or not (np.diff(edges) > 0).all():
        raise OptionError(f"{subject} expects ascending numbers, like (0, 0.1, 1), got {options.edges}.", subject=subject)
    of, columns = measure(options.of, table, Subject("FOLD", "histogram", "of"))
    bins = len(edges) + 1

    def add(state: State, piece: Piece) -> State:
        values = of(piece)
        places = np.searchsorted(edges, values[np.isfinite(values)], "right")
        return plus(state, {"rows": np.bincount(places, minlength=bins).astype(np.int64)})

    def result(state: State) -> pa.Table:
        ends = [None, *edges.tolist(), None]
        low, high = pa.array(ends[:-1], pa.float64()), pa.array(ends[1:], pa.float64())
        return pa.table({"low": low, "high": high, "rows": state["rows"]})

    return Fold({"rows": np.zeros(bins, np.int64)}, add, plus, result, columns)


QUANTILES = Part("quantiles", QuantilesOptions, quantiles)
HISTOGRAM = Part("histogram", HistogramOptions, histogram)
