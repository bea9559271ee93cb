"""Metrics of training and evaluation, and the release gate that judges them. A metric is a file and a line in METRICS."""

from __future__ import annotations

from .base import Metric
from .classes import ACCURACY, F1, PRECISION, RECALL
from .differences import MAE, MAPE, PCOPC, POISSON_DEVIANCE, R2, RMSE
from .groups import GAUC
from .likelihood import LOGLOSS, NORMALIZED_ENTROPY
from .multiclass import MULTICLASS
from .quantiles import COVERAGE, pinball, quantile_of
from .ranking import AUC, ECE, PR_AUC
from .recall_found import FOUND_METRICS

METRICS: tuple[Metric, ...] = (
    AUC,
    LOGLOSS,
    NORMALIZED_ENTROPY,
    MAE,
    RMSE,
    PCOPC,
    ECE,
    GAUC,
    PR_AUC,
    ACCURACY,
    PRECISION,
    RECALL,
    F1,
    R2,
    MAPE,
    POISSON_DEVIANCE,
    pinball(0.5),
    COVERAGE,
    *MULTICLASS,
    *FOUND_METRICS,
)

APART = frozenset({"multiclass", "found"})
"""Traits beside which no metrics are defined but those that need them."""


def metrics_for(traits: frozenset[str]) -> tuple[Metric, ...]:
    """Return the metrics that are defined where the traits of base.py hold; for classes only metrics of classes, and so on."""
    late, at = "late" in traits, quantile_of(traits)
    return tuple(
        metric if at is None or metric.name != "pinball" else pinball(at)
        for metric in METRICS
        if metric.needs <= traits and traits & APART <= metric.needs and not (late and metric.counts.take_out is None)
    )


def metric_names(grouped: bool) -> tuple[str, ...]:
    """Return the names of all metrics, in order; metrics that need groups only where there are groups."""
    return tuple(dict.fromkeys(metric.name for metric in METRICS if grouped or "groups" not in metric.needs))


def headlines() -> tuple[str, ...]:
    """Return the names of the metrics that SHOW VERSIONS and the progress of a training show."""
    return tuple(dict.fromkeys(metric.name for metric in METRICS if metric.headline))
