"""The range of a table's weights, known at any time without looking at all of them at once."""

from __future__ import annotations

import math


class Watch:
    """Bounds of the weights of a table, from its pushes and from a sweep that visits every row again and again.

    A row was either pushed or visited since the sweep began its round, or is unchanged since the round before: so the ranges
    seen in both rounds together cover every weight. An extreme that is gone is forgotten after at most two rounds.
    """

    def __init__(self) -> None:
        self._low = self._low_before = math.inf
        self._high = self._high_before = -math.inf

    def see(self, low: float, high: float) -> None:
        """Take in the range of some weights; infinity and minus infinity: of none."""
        self._low, self._high = min(self._low, low), max(self._high, high)

    def turn(self) -> None:
        """Begin the next round: every row has been visited."""
        self._low_before, self._high_before = self._low, self._high
        self._low, self._high = math.inf, -math.inf

    @property
    def low(self) -> float:
        """The least weight; infinity where there is none."""
        return min(self._low, self._low_before)

    @property
    def high(self) -> float:
        """The largest weight; minus infinity where there is none."""
        return max(self._high, self._high_before)
