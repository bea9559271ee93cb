"""Functions on rows where they lie, folds, updates and readings; a new one is a file and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..registry import Registry

if TYPE_CHECKING:
    from .base import FoldPart, ReadingPart, UpdatePart

FOLDS: Registry[FoldPart] = Registry(
    __name__,
    {
        "sum": "sums.SUM",
        "norm": "sums.NORM",
        "dot": "sums.DOT",
        "extremes": "ranked.EXTREMES",
        "top": "ranked.TOP",
        "nearest": "ranked.NEAREST",
        "quantiles": "spread.QUANTILES",
        "histogram": "spread.HISTOGRAM",
    },
)
UPDATES: Registry[UpdatePart] = Registry(
    __name__,
    {
        "scale": "weights_changed.SCALE",
        "clip": "weights_changed.CLIP",
        "zero": "weights_changed.ZERO",
        "quantise": "weights_changed.QUANTISE",
        "reinit": "weights_changed.REINIT",
        "prune": "rows_removed.PRUNE",
        "forget": "rows_removed.FORGET",
    },
)
READINGS: Registry[ReadingPart] = Registry(
    __name__,
    {
        "dot": "readings.DOT",
        "cosine": "readings.COSINE",
        "norm": "readings.NORM",
        "argmax": "readings.ARGMAX",
    },
)
