"""Batches as the matrices that packages take."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ....algorithms.learner import Matrix
from ...input.batches import Batch
from ...input.columns import Columns

LARGEST = np.finfo(np.float32).max
TABLE = "weights"
"""The table whose rows are categories, their weights their numbers from 1 on."""


def column_names(columns: Columns) -> tuple[str, ...]:
    """Return the names of a matrix's columns: categorical slots, what operators offer of them, continuous slots, then elements
    of vectors, `slot(0)`, ..."""
    names = [slot.name for slot in (*columns.scalar, *columns.offered, *columns.continuous)]
    names += [f"{slot.name}({i})" for slot in columns.vectors for i in range(slot.dim)]
    return tuple(names)


def starts_of(columns: Columns) -> NDArray[np.int64]:
    """Return which of those columns is the first one of each slot."""
    elements = [1] * (len(columns.scalar) + len(columns.offered) + len(columns.continuous)) + [
        slot.dim for slot in columns.vectors
    ]
    return np.cumsum([0, *elements[:-1]])


def matrix_of(
    batch: Batch, numbers: NDArray[np.float32], names: tuple[str, ...], offered: Mapping[str, NDArray[np.float32]]
) -> Matrix:
    """Return the examples of a batch.

    Args:
        numbers: float32[size], of the batch's rows: the number of each category from 1 on, 0 where it has none.
        names: of all columns.
        offered: float32[size, k] of those rows, what operators offer; nothing where they offer nothing.
    """
    rows = batch.scalar[:, : batch.examples]
    codes = numbers[rows]
    rates = [of_rows[rows].transpose(0, 2, 1).reshape(-1, batch.examples) for of_rows in offered.values()]
    categories = np.where(codes > 0, codes - 1, np.nan).astype(np.float32)
    dense = batch.dense.clip(-LARGEST, LARGEST)
    values = np.ascontiguousarray(np.concatenate([categories, *rates, dense]).T)
    label, weight = batch.label[:1, : batch.examples].reshape(-1), batch.weight[: batch.examples]
    return Matrix(values, names, len(codes), label, weight)


def joined(parts: list[Matrix], columns: Columns) -> Matrix:
    """Return the examples of all parts."""
    names, none = column_names(columns), np.empty(0, np.float32)
    values = np.concatenate([np.empty((0, len(names)), np.float32), *(part.values for part in parts)])
    label, weight = (np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in ("label", "weight"))
    return Matrix(values, names, len(columns.scalar), label, weight)
