"""Models whose scores are sums over features, and are computed without JAX."""

from __future__ import annotations

from typing import NamedTuple

import jax

from .losses import Loss, identity


class Sums(NamedTuple):
    """Scores that are sums over features: of weights times values and, with vectors, of the products of their vectors.

    Attributes:
        weights: the table of weights, a float for each label.
        vectors: the table of vectors; None for none. The intercept has none.
        link: "identity" or "sigmoid".
        pooling: how the values of a slot of several are joined; see pooled of layers/pooling.py.
        fields: a vector has so many parts, one for each slot, which that slot meets; 0 where slots meet the whole of it.
    """

    weights: str
    vectors: str | None
    link: str
    pooling: str
    fields: int


def sums_of(loss: Loss, vectors: str | None, pooling: str, fields: int = 0) -> Sums | None:
    """Return what is declared of a model with the table `weights`; None where its link is computed by JAX alone; see Sums."""
    link = LINKS.get(loss.link)
    return None if link is None else Sums("weights", vectors, link, pooling, fields)


LINKS = {identity: "identity", jax.nn.sigmoid: "sigmoid"}
