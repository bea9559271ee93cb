"""The optimizer AdamW."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import Part, option
from .base import Operator, TableSpec
from .from_optax import per_row


@dataclass(frozen=True)
class AdamwOptions:
    """Options of adamw."""

    learning_rate: float = option(0.001, "learning rate", minimum=0, open_minimum=True)
    b1: float = option(0.9, "share of the mean gradient kept per update", minimum=0, maximum=1, open_maximum=True)
    b2: float = option(0.999, "share of the mean square kept per update", minimum=0, maximum=1, open_maximum=True)
    eps: float = option(1e-8, "added to the divisor", minimum=0, open_minimum=True)
    weight_decay: float = option(1e-4, "share of the weight, times the learning rate, taken off per update", minimum=0)


def adamw(options: AdamwOptions, table: TableSpec) -> Operator:
    """Adam with decoupled weight decay, taken whenever a row is updated.

        m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2
        w <- w - learning_rate m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) - learning_rate weight_decay w

    t is the row's own number of updates, so a rare key's first steps are corrected like a frequent one's.

    Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.
    """
    import optax  # costs 0.2 s, which chains that end with ftrl need not pay

    return per_row(
        optax.adamw(options.learning_rate, options.b1, options.b2, options.eps, weight_decay=options.weight_decay),
        table,
        "adamw",
    )


ADAMW = Part("adamw", AdamwOptions, adamw)
