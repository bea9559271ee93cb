"""Models whose scores are sums over features, and are computed without JAX."""

from __future__ import annotations

from typing import NamedTuple


class Sums(NamedTuple):
    """Scores that are sums over features: of weights times values and, with vectors, of the products of their vectors.

    Attributes:
        weights: the table of weights, a float for each label.
        vectors: the table of vectors; None for none. The intercept has none.
        link: "identity", "sigmoid" or "exponential".
        pooling: how the values of a slot of several are joined; see pooled of layers/pooling.py.
        fields: a vector has so many parts, one for each slot, which that slot meets; 0 where slots meet the whole of it.
    """

    weights: str
    vectors: str | None
    link: str
    pooling: str
    fields: int
