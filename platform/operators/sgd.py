"""The optimizer stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import Part, option
from .base import Operator, TableSpec
from .from_optax import per_row


@dataclass(frozen=True)
class SgdOptions:
    """Options of sgd."""

    learning_rate: float = option(0.05, "learning rate", minimum=0, open_minimum=True)


def sgd(options: SgdOptions, table: TableSpec) -> Operator:
    """Stochastic gradient descent: w <- w - learning_rate g. Nothing but the weights is kept.

    Source: Robbins and Monro, "A Stochastic Approximation Method", Annals of Mathematical Statistics 1951.
    """
    import optax  # costs 0.2 s, which chains that end with ftrl need not pay

    return per_row(optax.sgd(options.learning_rate), table, "sgd")


SGD = Part("sgd", SgdOptions, sgd)
