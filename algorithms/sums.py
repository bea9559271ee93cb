"""Models whose scores are sums over features, which are scored without JAX."""

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
    """

    weights: str
    vectors: str | None
    link: str


def sums_of(loss: Loss, weights: str, vectors: str | None) -> Sums | None:
    """Return what is declared of such a model; None where its link is computed by JAX alone.

    Args:
        weights, vectors: its tables; see Sums.
    """
    if loss.link is identity:
        return Sums(weights, vectors, "identity")
    return Sums(weights, vectors, "sigmoid") if loss.link is jax.nn.sigmoid else None
