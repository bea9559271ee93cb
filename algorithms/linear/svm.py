"""SVM: a sparse linear classifier with a margin."""

from __future__ import annotations

from dataclasses import dataclass

from ...platform.options import Part, option
from ..base import Algorithm, Layout
from ..losses import HINGE, with_positive_weight
from .scores import LinearOptions, linear_model


@dataclass(frozen=True, kw_only=True)
class SvmOptions(LinearOptions):
    l2: float = option(
        1e-5, "L2 penalty per example: the lower, the narrower the margin; raise it where examples are few", minimum=0
    )
    positive_weight: float = option(
        1.0, "weight of examples whose label is 1; raise it if missing one costs more", minimum=0, open_minimum=True
    )


def svm(options: SvmOptions, layout: Layout) -> Algorithm:
    """Learn a linear support vector machine; its predictions rank, and are not probabilities.

    A prediction is 1 / (1 + exp(-score)), above 1/2 on the side of label 1.

    Source: Cortes and Vapnik, "Support-Vector Networks", Machine Learning 1995; by stochastic subgradients: Shalev-Shwartz et
    al., "Pegasos: Primal Estimated sub-GrAdient SOlver for SVM", ICML 2007.
    """
    return linear_model(options, layout, with_positive_weight(HINGE, options.positive_weight))


SVM = Part("svm", SvmOptions, svm)
