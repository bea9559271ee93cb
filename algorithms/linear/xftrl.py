"""XFTRL: sparse logistic regression, or another linear model, one weight per feature, learned online by FTRL-proximal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax

from ...platform.operators.base import Operator, TableSpec
from ...platform.options import Part, given_or, known, option
from ..base import Algorithm, Inputs, Intercept, Layout, Online, Sizing, Supervised, Traits
from ..layers.pooling import pooled
from ..losses import LossOptions, loss_of
from ..rates import alpha_option, rate_of, weights_by
from .scores import linear_scores, pooling_option, sums_of


@dataclass(frozen=True)
class XftrlOptions(LossOptions):
    alpha: float | None = alpha_option()
    beta: float = option(1.5, "smooths the learning rate of rare features", minimum=0, open_minimum=True, optimizer=True)
    l1: float = option(0.0, "L1 penalty; features below it have weight 0", minimum=0, optimizer=True)
    l2: float = option(0.0, "L2 penalty", minimum=0, optimizer=True)
    pooling: str = pooling_option()
    intercept: bool = option(True, "learn an intercept")

    def adapted(self, layout: Layout) -> XftrlOptions:
        """See `adapted` of platform/options."""
        return given_or(self, alpha=rate_of(layout, self.loss))


def xftrl(options: XftrlOptions, layout: Layout) -> Algorithm:
    """Learn a sparse linear model with FTRL-proximal, by default a logistic regression, one pass, any number of features.

    Source: McMahan et al., Ad Click Prediction: a View from the Trenches, KDD 2013.
    """

    alpha, loss = known(options.adapted(layout).alpha), loss_of(options, layout.classes)

    def optimizer(table: TableSpec) -> Operator:
        return weights_by(alpha, table, options.beta, options.l1, options.l2)

    def scores(rows: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        return linear_scores(rows["weights"], pooled(inputs, layout, options.pooling))

    return Algorithm(
        tables=(TableSpec("weights", layout.outputs),),
        optimizer=optimizer,
        learns=Online(Supervised(scores, loss, labels="several", sums=sums_of(loss, None, options.pooling))),
        intercept=Intercept(at_mean=True) if options.intercept else None,
        sizing=Sizing(large_batches=True),
        traits=Traits(compact=True),
    )


XFTRL = Part("xftrl", XftrlOptions, xftrl)
