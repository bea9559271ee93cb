"""The optimizer AdaGrad."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import Part, option
from .base import Operator, TableSpec
from .from_optax import per_row

SUMS = ("adagrad_sum_of_squares",)


@dataclass(frozen=True)
class AdagradOptions:
    """Options of adagrad."""

    learning_rate: float = option(0.05, "learning rate", minimum=0, open_minimum=True)
    initial_accumulator: float = option(0.1, "the sum of squares that a new row starts with", minimum=0)
    eps: float = option(1e-7, "added to the divisor", minimum=0, open_minimum=True)


def adagrad(options: AdagradOptions, table: TableSpec) -> Operator:
    """AdaGrad: s <- s + g^2; w <- w - learning_rate g / sqrt(s + eps), per coordinate.

    Source: Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization", JMLR
    2011.
    """
    import optax  # costs 0.2 s, which chains that end with ftrl need not pay

    return per_row(optax.adagrad(options.learning_rate, options.initial_accumulator, options.eps), table, "adagrad", SUMS)


ADAGRAD = Part("adagrad", AdagradOptions, adagrad)
