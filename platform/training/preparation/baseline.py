"""Stage baseline: the intercept of a new model begins at the score of a model that knows only the mean of the labels.

From a score of 0, a prediction of 1/2 for everything, the first batches of a log with few clicks would teach every feature what
is true of all examples. Vectors and layers need that push to begin to differ where positives are frequent, so most of their
algorithms begin at the mean only where positives are rare, or where the statement gives one (docs/quality.md, Few clicks).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....algorithms.delayed_labels import click_rate
from ....warehouse.entries import Split
from ...engines.base import Scan
from ...engines.repeats import expanded
from ...input.columns import Columns
from ...input.encode import labels_of, weights_of
from ..plan import Plan
from ..recipe import Recipe
from .base import Preparation, Stage

Doubles = NDArray[np.float64]

SPLITS = 8
ROWS = 1 << 14
RARE = 0.05
MOST = 0.999  # of a label's mean where the previous label of a chain is 1, estimated from the beginnings of splits


def baseline_of(plan: Plan, recipe: Recipe, columns: Columns, scan: Scan, splits: Sequence[Split]) -> tuple[float, ...]:
    """Return the scores, one for each label, with which the intercept of a new model begins; none where it has no intercept.

    Raises:
        DataError: a file cannot be read.
    """
    algorithm, given = recipe.algorithm, plan.settings.base_rate
    intercept = algorithm.intercept
    if algorithm.baseline is None or intercept is None:
        return ()
    if columns.classes is not None:
        shares = class_shares(columns, scan, splits)
        begins = intercept.at_mean or min(shares) < RARE
        return tuple(map(algorithm.baseline, shares)) if begins else ()
    if given is not None:
        others = 0.0 if algorithm.labels == "chain" else algorithm.baseline(given)  # later labels of a chain have another mean
        return (algorithm.baseline(given), *[others] * (len(columns.labels) - 1))
    means = mean_labels(columns, scan, splits, algorithm.classifier)
    if algorithm.late:
        means = list(map(click_rate, means))
    if algorithm.labels == "chain":
        means = [means[0], *(min(mean / before, MOST) for before, mean in itertools.pairwise(means))]
    counted = algorithm.loss is not None and algorithm.loss.counts  # whose logarithm may be far from 0
    rare = [counted or (algorithm.classifier and min(mean, 1 - mean) < RARE) for mean in means]
    chosen = [intercept.at_mean or one for one in rare]
    scores = tuple(algorithm.baseline(mean) if begin else 0.0 for mean, begin in zip(means, chosen, strict=True))
    return scores if any(chosen) else ()


def mean_labels(columns: Columns, scan: Scan, splits: Sequence[Split], binary: bool) -> list[float]:
    """Return the weighted mean of each label, estimated from the beginnings of some splits all over the input.

    Args:
        binary: labels are 0 or 1; each is counted once more than it occurs (Laplace smoothing), so that no mean is 0 or 1.
    """
    labels, weights = beginnings(columns, scan, splits)
    known = np.isfinite(labels) & np.isfinite(weights)  # another label is reported with its row when it is learned from
    if binary:
        known &= (labels >= 0) & (labels <= 1)
    labels, weights = np.where(known, labels, 0), np.where(known, weights, 0)
    total = weights.sum(axis=1)
    unknown = 0.5 if binary else 0.0  # where every sampled example has weight 0
    mean = np.where(total > 0, (labels * weights).sum(axis=1) / np.where(total > 0, total, 1), unknown)
    examples = known.sum(axis=1)
    return [float(value) for value in ((mean * examples + 1) / (examples + 2) if binary else mean)]


def class_shares(columns: Columns, scan: Scan, splits: Sequence[Split]) -> list[float]:
    """Return the weighted share of each class, estimated from the same rows with Laplace smoothing."""
    assert columns.classes is not None
    (numbers,), weights = beginnings(columns, scan, splits)
    known, classes = np.isfinite(numbers) & np.isfinite(weights), len(columns.classes.values)
    counts = np.bincount(numbers[known].astype(np.int64), weights[known], classes) + 1
    return [float(share) for share in counts / counts.sum()]


def beginnings(columns: Columns, scan: Scan, splits: Sequence[Split]) -> tuple[Doubles, Doubles]:
    """Return the labels float64[num_labels, n] and weights float64[n] at the beginnings of some splits."""
    chosen = sorted({len(splits) * i // SPLITS for i in range(SPLITS)})
    wanted = [*columns.labels, *([columns.weight] if columns.weight else [])]
    tables = [table for i in chosen if (table := beginning(scan, splits[i], wanted)) is not None]
    table = pa.concat_tables(tables)
    return labels_of(table, columns).astype(np.float64), weights_of(table, columns).astype(np.float64)


def beginning(scan: Scan, split: Split, wanted: Sequence[str]) -> pa.Table | None:
    """Return what filters leave of a split's first rows; None where they leave nothing."""
    with closing(scan.read(split, wanted, ROWS)) as tables:
        return expanded(table) if (table := next(tables, None)) is not None else None


def rows(given: Preparation) -> Preparation:
    """Find the scores with which the intercept of a new model begins."""
    if given.parent is not None:
        return given
    return given.having(baseline=baseline_of(given.plan, given.recipe, given.columns, given.scan, given.splits))


STAGE = Stage(rows=rows)
