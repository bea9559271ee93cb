"""How far the values of a slot in some rows are from those in others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .stored import CATEGORY, NUMBER, TOP, Profiles, SlotProfile

Doubles = NDArray[np.float64]

ENOUGH_ROWS = 1000
"""Rows on both sides below which a slot does not count in `drift.max`."""
MOST_CHANGES = 5
SMALL = 0.5
"""What is added to each count for the stability index, which no empty bucket has otherwise."""


class Change(NamedTuple):
    """A value whose share has changed, by its key; a share is None where it is below those of the most frequent values."""

    key: int
    before: float | None
    now: float | None


class Drift(NamedTuple):
    """How far a slot has drifted; all but `changes` are None where one side has no values.

    Attributes:
        js: the Jensen-Shannon divergence of the buckets, to base 2, from 0 to 1.
        noise: what chance alone gives on average, of so many rows on both sides.
        l_infinity: the largest change of a value's share, of the most frequent values.
        psi: the population stability index.
        wasserstein: of numbers, the mean distance of quantiles, in ranges between the old quartiles.
    """

    slot: str
    kind: str
    before: SlotProfile
    now: SlotProfile
    js: float | None
    noise: float | None
    l_infinity: float | None
    psi: float | None
    wasserstein: float | None
    changes: tuple[Change, ...]

    @property
    def drift(self) -> float | None:
        """The divergence beyond chance."""
        return None if self.js is None or self.noise is None else max(0.0, self.js - self.noise)

    @property
    def counts(self) -> bool:
        """Whether it is a slot, with enough rows on both sides to judge by."""
        return self.kind in (CATEGORY, NUMBER) and min(self.before.rows, self.now.rows) >= ENOUGH_ROWS


def drifts(before: Profiles, now: Profiles) -> Iterator[Drift]:
    """Compare the slots that both have."""
    for name, one in before.items():
        if name in now and one.kind == now[name].kind:
            yield drift_of(one, now[name])


def drift_of(before: SlotProfile, now: SlotProfile) -> Drift:
    """Compare a slot in some rows with the same in others."""
    if before.buckets is None or now.buckets is None or not before.buckets.sum() or not now.buckets.sum():
        return Drift(before.slot, before.kind, before, now, None, None, None, None, None, ())
    changes = changes_of(before, now)
    return Drift(
        before.slot,
        before.kind,
        before,
        now,
        divergence(before.buckets, now.buckets),
        noise_of(before.buckets, now.buckets),
        max((abs(one.now - one.before) for one in changes if one.now is not None and one.before is not None), default=None),
        stability(before.buckets, now.buckets),
        wasserstein(before, now) if before.kind == NUMBER else None,
        changes[:MOST_CHANGES],
    )


def divergence(before: NDArray[np.int64], now: NDArray[np.int64]) -> float:
    """Return the Jensen-Shannon divergence of two histograms, to base 2.

    Source: Lin, "Divergence Measures Based on the Shannon Entropy", 1991.
    """
    p, q = before / before.sum(), now / now.sum()
    middle = (p + q) / 2

    def information(of: Doubles) -> float:
        some = of > 0
        return float((of[some] * np.log2(of[some] / middle[some])).sum())

    return max(0.0, (information(p) + information(q)) / 2)


def noise_of(before: NDArray[np.int64], now: NDArray[np.int64]) -> float:
    """Return the divergence that two samples of one distribution have on average: of k buckets that occur, (k - 1)
    (1/n + 1/m) / (8 ln 2), the mean of the chi-square distribution that it approaches."""
    occupied = int(np.count_nonzero(before + now))
    return (occupied - 1) * (1 / int(before.sum()) + 1 / int(now.sum())) / (8 * math.log(2))


def stability(before: NDArray[np.int64], now: NDArray[np.int64]) -> float:
    """Return the population stability index of the buckets that occur."""
    some = (before + now) > 0
    p, q = before[some] + SMALL, now[some] + SMALL
    p, q = p / p.sum(), q / q.sum()
    return float(((p - q) * np.log(p / q)).sum())


def wasserstein(before: SlotProfile, now: SlotProfile) -> float | None:
    """Return the mean distance of quantiles, in ranges between the old quartiles; None where these are equal."""
    one, other = before.quantiles.astype(np.float64), now.quantiles.astype(np.float64)
    quarter = (len(one) - 1) // 4
    spread = one[3 * quarter] - one[quarter]
    return float(np.trapezoid(np.abs(one - other), dx=1 / (len(one) - 1)) / spread) if spread > 0 else None


def changes_of(before: SlotProfile, now: SlotProfile) -> tuple[Change, ...]:
    """Return the values whose shares have changed, by how much at least; of one that is not among the most frequent values of a
    side all that is known is that it is no more frequent than those."""
    if before.top is None or now.top is None:
        return ()
    old, new = shares_of(before), shares_of(now)
    most_old, most_new = (min(share.values()) if len(share) >= TOP else 0.0 for share in (old, new))
    found = [
        Change(key, old.get(key, None if most_old else 0.0), new.get(key, None if most_new else 0.0)) for key in {**old, **new}
    ]

    def size(one: Change) -> float:
        if one.before is None or one.now is None:
            known, most = (one.now, most_old) if one.before is None else (one.before, most_new)
            return max(0.0, (known or 0.0) - most)
        return abs(one.now - one.before)

    return tuple(sorted(found, key=size, reverse=True))


def shares_of(profile: SlotProfile) -> dict[int, float]:
    """Return the shares of the most frequent values, by key."""
    keys, counts = profile.top
    return dict(zip(keys.tolist(), (counts / max(profile.values, 1)).tolist(), strict=True))


def named(found: list[Drift]) -> dict[str, float | None]:
    """Return what conditions name: `drift(slot)` of each, and `drift.max` of those that have rows enough."""
    values: dict[str, float | None] = {f"drift({one.slot.lower()})": one.drift for one in found}
    values["drift.max"] = max((one.drift for one in found if one.counts and one.drift is not None), default=None)
    return values
