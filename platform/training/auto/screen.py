"""Crosses by residuals: which combinations of slots tell what a model does not know yet.

A combination's weights are learned from the first half of the rows and judged on the second. So one that tells nothing has a
gain of at most 0 in the mean, however many values it has, and a value that the second half alone has adds nothing.

Source: Luo et al., "AutoCross: Automatic Feature Crossing for Tabular Data in Real-World Applications", KDD 2019, for the
search by residuals; here each candidate is a table of sums.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SHRINKS = 8.0
"""Curvature that a weight begins with: some 32 rows of a mean of a half."""
BLOCKS = 40
ROUNDS, STEPS = 2, 8
MOST_SLOTS = 60
"""Slots that are combined with each other: those that tell most alone."""
LARGEST_TABLE = 1 << 21
ODD = np.int64(0x1E3779B97F4A7C15)
LEVEL = 0.05

Codes = NDArray[np.int32]
Doubles = NDArray[np.float64]


class CrossGain(NamedTuple):
    """What a combination of slots adds to a model.

    Attributes:
        names: of its slots.
        gain: by how much the mean loss of a row falls on the later rows.
        low, high: bound it in 95 %; low of all that were tried together, where several were.
        values: how many combinations the rows have, or about that.
        found: whether it is beyond chance.
    """

    names: tuple[str, ...]
    gain: float
    low: float
    high: float
    values: int
    found: bool


@dataclass
class ScreenedRows:
    """Rows, in order of time, and what a model says of them.

    Attributes:
        names: of the slots.
        codes: int32[n] of each slot, -1 where it is absent.
        labels: float64[n]; of numbers in standard deviations.
        scores: float64[n], the model's score of each row: of a label of 0 or 1 the log-odds.
        numbers: whether labels are numbers, not 0 or 1.
    """

    names: tuple[str, ...]
    codes: list[Codes]
    labels: Doubles
    scores: Doubles
    numbers: bool

    @property
    def half(self) -> int:
        return len(self.labels) // 2

    def gradients(self) -> tuple[Doubles, Doubles]:
        """Return of each row the residual and the curvature of its loss."""
        if self.numbers:
            return self.labels - self.scores, np.ones(len(self.labels))
        means = 1 / (1 + np.exp(-self.scores))
        return self.labels - means, means * (1 - means)

    def learn(self, table: CrossTable, steps: int) -> None:
        """Add a combination's weights to the model, step by step, for as long as the later rows become better."""
        for _ in range(steps):
            residuals, curvature = self.gradients()
            if table.gains(residuals, curvature, self.half)[0].mean() <= 0:
                return
            weights, _ = table.weights(residuals, curvature, self.half)
            self.scores = self.scores + weights[table.places]


class CrossTable(NamedTuple):
    """A combination of slots: int64[n] the place of each row's value, and how many places there are."""

    names: tuple[str, ...]
    places: NDArray[np.int64]
    size: int

    @classmethod
    def of(cls, sample: ScreenedRows, members: Sequence[int]) -> CrossTable:
        """Return the combination of some slots; where it has very many places, values may share one."""
        places, size = sample.codes[members[0]].astype(np.int64) + 1, int(sample.codes[members[0]].max(initial=-1)) + 2
        for member in members[1:]:
            own = int(sample.codes[member].max(initial=-1)) + 2
            places, size = places * own + (sample.codes[member] + 1), size * own
            if size > LARGEST_TABLE:
                size = 1 << min(LARGEST_TABLE.bit_length() - 1, int(len(places) * 8).bit_length())
                places = ((places * ODD) >> 20) & (size - 1)
        return cls(tuple(sample.names[member] for member in members), places, size)

    def weights(self, residuals: Doubles, curvature: Doubles, half: int) -> tuple[Doubles, int]:
        """Return the weight of each place by the first half of the rows, and how many places these have."""
        first = self.places[:half]
        slope = np.bincount(first, residuals[:half], minlength=self.size)
        bend = np.bincount(first, curvature[:half], minlength=self.size)
        return slope / (bend + SHRINKS), int(np.count_nonzero(bend))

    def gains(self, residuals: Doubles, curvature: Doubles, half: int) -> tuple[Doubles, int]:
        """Return by how much each row of the second half is better, and how many values the first half has."""
        weights, values = self.weights(residuals, curvature, half)
        own = weights[self.places[half:]]
        return own * residuals[half:] - own * own * curvature[half:] / 2, values


def gain_of(table: CrossTable, residuals: Doubles, curvature: Doubles, half: int, tried: int) -> CrossGain:
    """Return what a combination adds, with its interval by blocks of neighbouring rows.

    Args:
        tried: how many combinations are compared.
    """
    rows, values = table.gains(residuals, curvature, half)
    means = np.array([block.mean() for block in np.array_split(rows, BLOCKS)])
    gain, error = float(rows.mean()), float(means.std(ddof=1) / np.sqrt(len(means)))
    low = gain - student(1 - LEVEL / max(tried, 1)) * error
    return CrossGain(table.names, gain, low, gain + student(1 - LEVEL / 2) * error, values, low > 0)


def student(level: float) -> float:
    """Return a quantile of Student's distribution for the blocks."""
    from scipy.stats import t  # takes 0.3 s

    return float(t.ppf(level, BLOCKS - 1))


def alone(sample: ScreenedRows) -> list[CrossGain]:
    """Return what each slot adds to the model by itself."""
    residuals, curvature = sample.gradients()
    tables = [CrossTable.of(sample, [slot]) for slot in range(len(sample.codes))]
    return [gain_of(table, residuals, curvature, sample.half, len(tables)) for table in tables]


def learn_alone(sample: ScreenedRows) -> None:
    """Teach the model what single slots tell, so that a combination's gain is not that of its members; in place."""
    for _, slot in itertools.product(range(ROUNDS), range(len(sample.codes))):
        sample.learn(CrossTable.of(sample, [slot]), 2)


def candidates(sample: ScreenedRows, order: int, taken: Iterable[tuple[str, ...]]) -> Iterator[tuple[int, ...]]:
    """Yield the combinations of an order to try: all pairs, and of higher orders those taken with one slot more."""
    telling = most_telling(sample)
    if order == 2:
        yield from itertools.combinations(telling, 2)
        return
    seen: set[frozenset[int]] = set()
    for names in taken:
        for slot in telling:
            members = frozenset([*(sample.names.index(name) for name in names), slot])
            if len(members) == order and members not in seen:
                seen.add(members)
                yield tuple(sorted(members))


def most_telling(sample: ScreenedRows) -> list[int]:
    """Return the slots to combine, those with several values; of many those that tell most alone."""
    several = [n for n, codes in enumerate(sample.codes) if codes.min(initial=-1) != codes.max(initial=-1)]
    if len(several) <= MOST_SLOTS:
        return several
    gains = alone(sample)
    return sorted(sorted(several, key=lambda n: -gains[n].gain)[:MOST_SLOTS])


def crosses(sample: ScreenedRows, order: int, most: int, least: float) -> list[CrossGain]:
    """Return the combinations of 2 to `order` slots that the model lacks, best first; it learns them on the way, in place.

    Each that is taken is learned before the next one is looked for, so that two which tell the same are not both taken.

    Args:
        most: how many of an order.
        least: the gain of a row below which none is taken.
    """
    learn_alone(sample)
    found: list[CrossGain] = []
    for number in range(2, order + 1):
        found += greedy(sample, [*candidates(sample, number, [one.names for one in found])], most, least)
    return found


def greedy(sample: ScreenedRows, members: Sequence[tuple[int, ...]], most: int, least: float) -> list[CrossGain]:
    """Take the best combination that is beyond chance, teach it to the model, and go on with those that were promising."""
    tried, found = len(members), list[CrossGain]()
    left: list[CrossTable] = []
    residuals, curvature = sample.gradients()
    for one in members:
        table = CrossTable.of(sample, one)
        if promising(gain_of(table, residuals, curvature, sample.half, tried), least):
            left.append(table)
    while left and len(found) < most:
        residuals, curvature = sample.gradients()
        gains = [gain_of(table, residuals, curvature, sample.half, tried) for table in left]
        best = max(range(len(left)), key=lambda n: gains[n].gain)
        if not promising(gains[best], least):
            break
        found.append(gains[best])
        sample.learn(left.pop(best), STEPS)
    return found


def promising(gain: CrossGain, least: float) -> bool:
    return gain.found and gain.gain > least
