"""Readings: dot, cosine, norm, argmax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..options import Part, option
from .base import KeyedReading, RowTable

Floats = NDArray[np.float32]
Arrays = Mapping[str, Floats]


@dataclass(frozen=True)
class NoReadingOptions:
    """A reading without options."""


def column(values: NDArray[np.generic]) -> Floats:
    """Return one number of each row as readings return it."""
    return values.astype(np.float32)[:, None]


def products(weights: Floats, to: Floats) -> NDArray[np.float64]:
    """Return the product of each row with a vector; rows are added up one by one, so that none depends on its neighbours."""
    found: NDArray[np.float64] = (weights.astype(np.float64) * to).sum(1)
    return found


def dot(options: NoReadingOptions, table: RowTable) -> KeyedReading:
    """Multiply each row with the vector `to`."""
    return KeyedReading(lambda weights, arrays: column(products(weights, arrays["to"])), arrays={"to": (table.dim,)})


def cosine(options: NoReadingOptions, table: RowTable) -> KeyedReading:
    """Take the cosine of each row and the vector `to`; 0 where either is 0."""

    def read(weights: Floats, arrays: Arrays) -> Floats:
        wide, to = weights.astype(np.float64), arrays["to"].astype(np.float64)
        sizes = np.sqrt((wide * wide).sum(1) * (to * to).sum())
        found = products(weights, arrays["to"])
        return column(np.divide(found, sizes, out=np.zeros_like(found), where=sizes != 0))

    return KeyedReading(read, arrays={"to": (table.dim,)})


@dataclass(frozen=True)
class NormReadingOptions:
    """Options of norm."""

    of: str = option("l2", "which: the sum of sizes, the length, or the greatest size", choices=("l1", "l2", "max"))


def norm(options: NormReadingOptions, table: RowTable) -> KeyedReading:
    """Measure each row."""

    def read(weights: Floats, arrays: Arrays) -> Floats:
        sizes = np.abs(weights.astype(np.float64))
        if options.of == "max":
            return column(sizes.max(1))
        return column(sizes.sum(1) if options.of == "l1" else np.sqrt((sizes * sizes).sum(1)))

    return KeyedReading(read)


def argmax(options: NoReadingOptions, table: RowTable) -> KeyedReading:
    """Find the place of each row's greatest element, from 0, the first of equal ones; and that element."""

    def read(weights: Floats, arrays: Arrays) -> Floats:
        return np.stack([weights.argmax(1).astype(np.float32), weights.max(1)], axis=1)

    return KeyedReading(read, width=2)


DOT = Part("dot", NoReadingOptions, dot)
COSINE = Part("cosine", NoReadingOptions, cosine)
NORM = Part("norm", NormReadingOptions, norm)
ARGMAX = Part("argmax", NoReadingOptions, argmax)
