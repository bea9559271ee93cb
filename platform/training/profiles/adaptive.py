"""Adaptive conformal intervals: how often labels may miss their interval follows how often they did.

A version's residuals are a window. What its parent said of it before is known, so each window tells how often its labels lay
outside, and the share of misses that intervals are cut for moves against the error. It is kept for a few shares and
interpolated between them, so that a statement may ask for any.

Source: Gibbs and Candès, "Adaptive Conformal Inference Under Distribution Shift", NeurIPS 2021.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..metrics.residuals import ResidualTally, bin_of, together

Doubles = NDArray[np.float64]

MISSES = np.array([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
"""Shares of misses, on a side where residuals are signed, for which shifts are kept."""
RATE = 0.5
"""How much of a large window's error corrects the share: less leaves a shift for long, from 2 on it swings."""
SETTLING = 100
"""Rows of which the correction is half of that: one row moves it by 0.005, as in the source."""


class Known(NamedTuple):
    """What a version knows of intervals.

    Attributes:
        tally: its residuals, and half of what its parent knew.
        shifts: float64[labels, sides, len(MISSES)], what is added to each share.
    """

    tally: ResidualTally
    shifts: Doubles

    def miss(self, label: int, side: int, share: float) -> float:
        """Return the share of misses that an interval is cut for where one of that share is wanted."""
        grid, shifts = np.concatenate([[0.0], MISSES, [1.0]]), np.concatenate([[0.0], self.shifts[label, side], [0.0]])
        return float(np.clip(share + np.interp(share, grid, shifts), 0.0, self.most))

    @property
    def most(self) -> float:
        """The largest share of misses on a side."""
        return 0.5 if self.tally.signed else 1.0

    def bin(self, label: int, side: int, share: float) -> int | None:
        """Return the bin of the residual that bounds an interval; None where there are too few for it.

        As the share of misses falls to 0 it is the largest residual that is known.
        """
        tally = self.tally.sides[side]
        counts = tally.counts[label]
        if bin_of(tally.bins, counts, 1 - share) is None:
            return None
        found = bin_of(tally.bins, counts, 1 - self.miss(label, side, share))
        return int(tally.bins[np.flatnonzero(counts)[-1]]) if found is None else found


def unshifted(tally: ResidualTally) -> Known:
    """Return what is known where no window came before."""
    return Known(tally, np.zeros((len(tally.counts), len(tally.sides), len(MISSES))))


def adapted(window: ResidualTally, before: Known | None) -> Known:
    """Return what is known after a window: its residuals, half of those before, and shifts by how often intervals missed it.

    Args:
        before: what the parent knew; None: there is none, or it knew nothing.
    """
    if before is None or before.tally.signed != window.signed:
        return unshifted(window)
    shifts = before.shifts.copy()
    for label, side in np.ndindex(shifts.shape[:2]):
        own = window.sides[side]
        rows = int(own.counts[label].sum())
        for place, share in enumerate(MISSES.tolist()):
            bound = before.bin(label, side, share)
            if bound is None or share > before.most or not rows:
                continue
            missed = int(own.counts[label][own.bins > bound].sum()) / rows
            shift = shifts[label, side, place] + RATE * rows / (rows + SETTLING) * (share - missed)
            shifts[label, side, place] = np.clip(share + shift, 0.0, before.most) - share
    return Known(together(window, before.tally.halved()) or window, shifts)
