"""Columns as numbers, and what each tells of the label alone, judged on later rows than those it was learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ....algorithms.chunk import Chunk
    from ...input.columns import Columns

BINS = 32
"""Categories of a number, by its quantiles."""

PRIOR = 1.0
"""Rows of the mean label that each value begins with."""
LEAK_AUC, LEAK_EXPLAINED = 0.98, 0.9
RECURS, RECURRING = 20, 0.9
"""How often a feature was seen that tells by its counts, and the share of rows that must have such features."""
FEWEST = 50
"""Rows of each label among the later half, below which nothing is told."""

Codes = NDArray[np.int32]
Doubles = NDArray[np.float64]


class ToldAlone(NamedTuple):
    """What a column tells of a label of 0 or 1 by itself: its AUC, and the share of the mean's logloss that it explains."""

    auc: float
    explained: float

    @property
    def leaks(self) -> bool:
        """Whether it tells nearly all."""
        return self.auc > LEAK_AUC or self.explained > LEAK_EXPLAINED


def told_alone(codes: Codes, labels: Doubles) -> ToldAlone | None:
    """Return what a column tells: learned from the first half of the rows, judged on the second.

    Args:
        codes: int32[n], the value of each row, -1 where it is absent, which counts as a value.
        labels: float64[n], 0 or 1.

    Returns:
        None where a half has fewer than FEWEST rows of a label.
    """
    half = len(labels) // 2
    first, later = labels[:half], labels[half:]
    if min(least(first), least(later)) < FEWEST:
        return None
    mean, values = float(first.mean()), codes + 1
    size = int(values.max()) + 1
    rows = np.bincount(values[:half], minlength=size)
    positive = np.bincount(values[:half], first, minlength=size)
    rates = ((positive + PRIOR * mean) / (rows + PRIOR))[values[half:]]
    loss, of_mean = logloss(later, rates), logloss(later, np.full(len(later), mean))
    return ToldAlone(auc_of(later > 0, rates), 1 - loss / of_mean)


def told_by_counts(slots: NDArray[np.uint16], shows: NDArray[np.int64], clicks: NDArray[np.int64]) -> dict[int, ToldAlone]:
    """Return what slots tell, by how often each feature was shown and clicked; of slots whose features recur.

    Args:
        slots, shows, clicks: of each feature; clicks are the rows with a positive label.
    """
    found = {}
    for number in np.unique(slots).tolist():
        own = slots == number
        shown, clicked = shows[own], np.minimum(clicks[own], shows[own])
        often, ones = shown >= RECURS, int(clicked.sum())
        rows = int(shown.sum())
        if min(ones, rows - ones) < FEWEST or shown[often].sum() < RECURRING * rows:
            continue
        rates = (clicked + PRIOR * ones / rows) / (shown + PRIOR)
        sure = np.clip(rates, 1e-7, 1 - 1e-7)
        loss = float(-(clicked * np.log(sure) + (shown - clicked) * np.log1p(-sure)).sum())
        mean = ones / rows
        of_mean = -(ones * np.log(mean) + (rows - ones) * np.log1p(-mean))
        found[number] = ToldAlone(auc_of_counts(rates, clicked, shown - clicked), 1 - loss / float(of_mean))
    return found


def auc_of_counts(scores: Doubles, ones: NDArray[np.int64], zeros: NDArray[np.int64]) -> float:
    """Return the area under the ROC curve of scores that many rows share."""
    _, places = np.unique(scores, return_inverse=True)
    up, down = np.bincount(places, ones), np.bincount(places, zeros)
    before = np.cumsum(down) - down
    return float((up * (before + down / 2)).sum() / (up.sum() * down.sum()))


def least(labels: Doubles) -> int:
    """Return how many rows the rarer label has."""
    positive = int(np.count_nonzero(labels))
    return min(positive, len(labels) - positive)


def logloss(labels: Doubles, rates: Doubles) -> float:
    """Return the mean logarithmic loss."""
    rates = np.clip(rates, 1e-7, 1 - 1e-7)
    return float(-(labels * np.log(rates) + (1 - labels) * np.log1p(-rates)).mean())


def auc_of(positive: NDArray[np.bool_], scores: Doubles) -> float:
    """Return the area under the ROC curve; equal scores count half.

    Source: Mann and Whitney, "On a Test of Whether one of Two Random Variables is Stochastically Larger than the Other", 1947.
    """
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2)[places]
    ones = int(np.count_nonzero(positive))
    zeros = len(positive) - ones
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros)) if ones and zeros else 0.5


def leak_text(name: str, alone: ToldAlone, members: Sequence[str] = ()) -> str:
    """Say that a column, or a cross of some, leaks the label, and what to do."""
    what, remedy = "Column", f"IGNORE ({name})"
    if members:
        what, remedy = "Cross", f"Take it out of CROSS, IGNORE {' or '.join(members)}"
    return (
        f"{what} {name} alone tells the label: AUC {alone.auc:.3f}, {max(alone.explained, 0):.0%} of the logloss explained. "
        f"It may be known only after the label. {remedy}, or make sure that it is known when you predict."
    )


def categories(chunk: Chunk, columns: Columns) -> dict[str, Codes]:
    """Return the values of slots with one feature a row, from 0 on, -1 where a row has none."""
    return {slot.name: dense(chunk.scalar[number]) for number, slot in enumerate(columns.scalar)}


def bins(chunk: Chunk, columns: Columns) -> dict[str, Codes]:
    """Return the bin of each number, by quantiles of the first half of the rows; -1 where it is absent."""
    return {slot.name: binned(chunk.dense[number]) for number, slot in enumerate(columns.continuous)}


def binned(values: NDArray[np.floating[Any]]) -> Codes:
    """Return the bin of each value, by quantiles of the first half; -1 where it is absent."""
    known = values[: len(values) // 2]
    known = known[np.isfinite(known)]
    edges = np.unique(np.quantile(known, np.arange(1, BINS) / BINS)) if len(known) else np.empty(0, np.float32)
    return np.where(np.isfinite(values), np.searchsorted(edges, values), -1).astype(np.int32)


def dense(codes: Codes) -> Codes:
    """Return codes without gaps, in their order; -1 stays."""
    seen = np.zeros(int(codes.max(initial=-1)) + 2, bool)
    seen[codes] = True  # -1 is the last place
    seen[-1] = False
    numbers = np.append(np.cumsum(seen[:-1]) - 1, -1).astype(np.int32)
    return numbers[codes]
