"""Logistic regression: a sparse linear classifier with any optimizer."""

from __future__ import annotations

from dataclasses import dataclass

from ...platform.options import Part, option
from ..base import Algorithm, Layout
from ..losses import LOGLOSS, softmax_of, with_positive_weight
from .scores import LinearOptions, linear_model


@dataclass(frozen=True, kw_only=True)
class LogisticRegressionOptions(LinearOptions):
    positive_weight: float = option(
        1.0, "weight of examples whose label is 1; above 1, predictions are too high", minimum=0, open_minimum=True
    )


def logistic_regression(options: LogisticRegressionOptions, layout: Layout) -> Algorithm:
    """Learn a logistic regression, by FTRL-proximal or by the optimizer that OPERATORS ends with.

    With a label of classes it is multinomial: softmax over a score for each class.

    Source: Cox, "The Regression Analysis of Binary Sequences", JRSS B 1958; l2: Hoerl and Kennard, "Ridge Regression",
    Technometrics 1970.
    """
    if layout.classes:
        return linear_model(options, layout, softmax_of("logloss", options.positive_weight))
    return linear_model(options, layout, with_positive_weight(LOGLOSS, options.positive_weight))


LOGISTIC_REGRESSION = Part("logistic_regression", LogisticRegressionOptions, logistic_regression)
