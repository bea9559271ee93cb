"""Folds that add up: sum, norm, dot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..errors import OptionError, Subject
from ..options import Part, option
from .base import Fold, Piece, RowTable, State, groups_by, measure, plus

BY = ("all", "slot")
SUM_OF = Subject("FOLD", "sum", "of")


@dataclass(frozen=True)
class SumOptions:
    """Options of sum."""

    of: str = option("abs_w", "what is added: abs_w, count, updates, shows, clicks, or a column of one float such as w, n, z")
    by: str = option("all", "a row for each slot, or one for all", choices=BY)
    table: str = option("", "whose rows; the first table's by default")


def sum(options: SumOptions, table: RowTable) -> Fold:
    """Add up a column: rows, sum and mean of all that is a number.

    Columns: slot where `by` says so, rows, sum, mean, nans: how many rows are no number, which are left out.
    """
    of, columns = measure(options.of, table, SUM_OF)
    groups = groups_by(options.by, table)

    def add(state: State, piece: Piece) -> State:
        values, places = of(piece), groups.places(piece)
        good = np.isfinite(values)
        sums = groups.sums(places[good], values[good])
        counts = groups.counts(places[good])
        return plus(state, {"rows": counts, "sum": sums, "nans": groups.counts(places) - counts})

    def result(state: State) -> pa.Table:
        rows, sums = state["rows"], state["sum"]
        means = pa.array(np.divide(sums, np.maximum(rows, 1)), mask=rows == 0)
        return groups.table({"rows": rows, "sum": sums, "mean": means, "nans": state["nans"]})

    none = np.zeros(len(groups), np.int64)
    return Fold({"rows": none, "sum": np.zeros(len(groups)), "nans": none}, add, plus, result, columns)


@dataclass(frozen=True)
class NormOptions:
    """Options of norm."""

    by: str = option("all", "a row for each slot, or one for all", choices=BY)
    table: str = option("", "whose rows; the first table's by default")


def norm(options: NormOptions, table: RowTable) -> Fold:
    """Measure the weights: how many rows, their L1 and L2 norms, and the greatest size of an element.

    Columns: slot where `by` says so, rows, l1, l2, max_abs, nans: how many elements are no number, which are left out.
    """
    groups = groups_by(options.by, table)

    def add(state: State, piece: Piece) -> State:
        w, places = np.abs(piece["w"].astype(np.float64)), groups.places(piece)
        good = np.isfinite(w)
        kept = np.where(good, w, 0)
        greatest = np.zeros(len(groups))
        np.maximum.at(greatest, places, kept.max(1, initial=0))
        nans = groups.sums(places, (~good).sum(1).astype(np.float64)).astype(np.int64)
        sums = {"l1": groups.sums(places, kept.sum(1)), "squares": groups.sums(places, (kept * kept).sum(1))}
        return merge(state, {"rows": groups.counts(places), **sums, "max_abs": greatest, "nans": nans})

    def merge(one: State, other: State) -> State:
        return {**plus(one, other), "max_abs": np.maximum(one["max_abs"], other["max_abs"])}

    def result(state: State) -> pa.Table:
        l2 = np.sqrt(state["squares"])
        named = {"rows": state["rows"], "l1": state["l1"], "l2": l2, "max_abs": state["max_abs"], "nans": state["nans"]}
        return groups.table(named)

    counts, sums = np.zeros(len(groups), np.int64), np.zeros(len(groups))
    zero = {"rows": counts, "l1": sums, "squares": sums, "max_abs": sums, "nans": counts}
    return Fold(zero, add, merge, result)


@dataclass(frozen=True)
class DotOptions:
    """Options of dot."""

    left: str = option("w", "a float column, such as w, z or n")
    right: str = option("w", "a float column of as many floats")
    by: str = option("all", "a row for each slot, or one for all", choices=BY)
    table: str = option("", "whose rows; the first table's by default")


def dot(options: DotOptions, table: RowTable) -> Fold:
    """Multiply two columns of each row, and add the products up over all rows.

    Columns: slot where `by` says so, rows, dot, nans: how many rows have a product that is no number, which are left out.

    Raises:
        OptionError: the table has no such column, or the columns have different lengths.
    """
    for name, column in (("left", options.left), ("right", options.right)):
        if column not in table.columns:
            subject = Subject("FOLD", "dot", name)
            have = ", ".join(table.columns)
            raise OptionError(f"{subject} is {column!r}; table {table.name} has {have}.", subject=subject)
    left, right = (table.columns[name] for name in (options.left, options.right))
    if left != right:
        subject = Subject("FOLD", "dot", "right")
        raise OptionError(
            f"{subject} has {right} floats, and {options.left} has {left}. Name two of one length.", subject=subject
        )
    groups = groups_by(options.by, table)

    def add(state: State, piece: Piece) -> State:
        products = (piece[options.left].astype(np.float64) * piece[options.right]).sum(1)
        places, good = groups.places(piece), np.isfinite(products)
        counts = groups.counts(places[good])
        sums = groups.sums(places[good], products[good])
        return plus(state, {"rows": counts, "dot": sums, "nans": groups.counts(places) - counts})

    none = np.zeros(len(groups), np.int64)
    zero = {"rows": none, "dot": np.zeros(len(groups)), "nans": none}
    return Fold(zero, add, plus, groups.table, tuple(dict.fromkeys((options.left, options.right))))


SUM = Part("sum", SumOptions, sum)
NORM = Part("norm", NormOptions, norm)
DOT = Part("dot", DotOptions, dot)
