"""The optimizer SGD with momentum."""

from __future__ import annotations

from dataclasses import dataclass

from ..dependent import when
from ..options import Part, option
from .base import Operator, TableSpec
from .from_optax import per_row


@dataclass(frozen=True)
class MomentumOptions:
    """Options of momentum."""

    learning_rate: float = option(0.01, "learning rate", minimum=0, open_minimum=True)
    momentum: float = option(0.9, "share of the velocity kept per update", minimum=0, maximum=1, open_maximum=True)
    nesterov: bool = option(False, "look ahead along the velocity", needs=(when("momentum"),))


def momentum(options: MomentumOptions, table: TableSpec) -> Operator:
    """SGD with momentum: v <- momentum v + g; w <- w - learning_rate v.

    With nesterov, w <- w - learning_rate (g + momentum v).

    Source: Polyak, "Some methods of speeding up the convergence of iteration methods", 1964; Sutskever et al., "On the
    importance of initialization and momentum in deep learning", ICML 2013.
    """
    import optax  # costs 0.2 s, which chains that end with ftrl need not pay

    return per_row(optax.sgd(options.learning_rate, options.momentum, options.nesterov), table, "momentum")


MOMENTUM = Part("momentum", MomentumOptions, momentum)
