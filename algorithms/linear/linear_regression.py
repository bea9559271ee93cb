"""Linear regression: a sparse linear model of a label that is any number."""

from __future__ import annotations

from dataclasses import dataclass

from ...platform.options import Part, given_or
from ..base import Algorithm, Layout
from ..losses import SQUARED
from ..rates import rate_of
from .scores import LinearOptions, linear_model


@dataclass(frozen=True, kw_only=True)
class LinearRegressionOptions(LinearOptions):
    def adapted(self, layout: Layout) -> LinearRegressionOptions:
        """See `adapted` of platform/options."""
        return given_or(self, learning_rate=rate_of(layout, "squared"))


def linear_regression(options: LinearRegressionOptions, layout: Layout) -> Algorithm:
    """Learn least squares, by FTRL-proximal or by the optimizer that OPERATORS ends with.

    The label is learned in standard deviations from its mean, both of all examples so far, so that one learning rate suits
    prices and durations alike. Weights are in that unit; predictions, rmse and mae are in the label's own.

    Source: Legendre, "Nouvelles méthodes pour la détermination des orbites des comètes", 1805; l2: Hoerl and Kennard, "Ridge
    Regression", Technometrics 1970.
    """
    return linear_model(options, layout, SQUARED)


LINEAR_REGRESSION = Part("linear_regression", LinearRegressionOptions, linear_regression)
