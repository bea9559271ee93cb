"""The optimizer Adam."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import Part, option
from .base import Operator, TableSpec
from .from_optax import per_row


@dataclass(frozen=True)
class AdamOptions:
    """Options of adam."""

    learning_rate: float = option(0.001, "learning rate", minimum=0, open_minimum=True)
    b1: float = option(0.9, "share of the mean gradient kept per update", minimum=0, maximum=1, open_maximum=True)
    b2: float = option(0.999, "share of the mean square kept per update", minimum=0, maximum=1, open_maximum=True)
    eps: float = option(1e-8, "added to the divisor", minimum=0, open_minimum=True)


def adam(options: AdamOptions, table: TableSpec) -> Operator:
    """Adam: steps scaled by running means of a row's gradients and of their squares.

        m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2
        w <- w - learning_rate m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)

    t is the row's own number of updates, so a rare key's first steps are corrected like a frequent one's.

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.
    """
    import optax  # costs 0.2 s, which chains that end with ftrl need not pay

    return per_row(optax.adam(options.learning_rate, options.b1, options.b2, options.eps), table, "adam")


ADAM = Part("adam", AdamOptions, adam)
