"""The optimizer Lion."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import Part, option
from .base import Operator, TableSpec
from .from_optax import per_row


@dataclass(frozen=True)
class LionOptions:
    """Options of lion."""

    learning_rate: float = option(0.0001, "learning rate", minimum=0, open_minimum=True)
    b1: float = option(0.9, "share of the mean gradient in a step", minimum=0, maximum=1, open_maximum=True)
    b2: float = option(0.99, "share of the mean gradient kept per update", minimum=0, maximum=1, open_maximum=True)
    weight_decay: float = option(0.0, "share of the weight, times the learning rate, taken off per update", minimum=0)


def lion(options: LionOptions, table: TableSpec) -> Operator:
    """Lion: steps of one size, in the direction of the sign of a running mean of gradients.

        w <- w - learning_rate (sign(b1 m + (1 - b1) g) + weight_decay w)
        m <- b2 m + (1 - b2) g

    Source: Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023.
    """
    import optax  # costs 0.2 s, which chains that end with ftrl need not pay

    return per_row(optax.lion(options.learning_rate, options.b1, options.b2, weight_decay=options.weight_decay), table, "lion")


LION = Part("lion", LionOptions, lion)
