"""The optimizer RMSProp."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import Part, option
from .base import Operator, TableSpec
from .from_optax import per_row


@dataclass(frozen=True)
class RmspropOptions:
    """Options of rmsprop."""

    learning_rate: float = option(0.001, "learning rate", minimum=0, open_minimum=True)
    decay: float = option(0.9, "share of the mean square kept per update", minimum=0, maximum=1, open_maximum=True)
    eps: float = option(1e-8, "added to the divisor", minimum=0, open_minimum=True)


def rmsprop(options: RmspropOptions, table: TableSpec) -> Operator:
    """RMSProp: s <- decay s + (1 - decay) g^2; w <- w - learning_rate g / sqrt(s + eps).

    Source: Tieleman and Hinton, "Lecture 6.5: rmsprop", Coursera Neural Networks for Machine Learning, 2012.
    """
    import optax  # costs 0.2 s, which chains that end with ftrl need not pay

    return per_row(optax.rmsprop(options.learning_rate, options.decay, options.eps), table, "rmsprop")


RMSPROP = Part("rmsprop", RmspropOptions, rmsprop)
