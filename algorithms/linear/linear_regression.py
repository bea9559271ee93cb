"""Linear regression: a sparse linear model of a label that is any number."""

from __future__ import annotations

from ...platform.options import Part
from ..base import Algorithm, Layout
from ..losses import SQUARED
from .scores import LinearOptions, linear_model


def linear_regression(options: LinearOptions, layout: Layout) -> Algorithm:
    """Learn least squares, by AdaGrad or by the optimizer that OPERATORS ends with.

    The label is learned in standard deviations from its mean, both of all examples so far, so that one learning rate suits
    prices and durations alike. Weights are in that unit; predictions, rmse and mae are in the label's own.

    Source: Legendre, "Nouvelles méthodes pour la détermination des orbites des comètes", 1805; l2: Hoerl and Kennard, "Ridge
    Regression", Technometrics 1970.
    """
    return linear_model(options, layout, SQUARED)


LINEAR_REGRESSION = Part("linear_regression", LinearOptions, linear_regression)
