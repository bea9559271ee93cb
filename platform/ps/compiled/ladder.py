"""The few sizes that arrays are padded to, so that JAX compiles a handful of programs."""

from __future__ import annotations

import threading
from bisect import bisect_left

LOWEST = 64
EIGHTHS = (8, 9, 10, 11, 12, 14)
HEADROOMS = (1.1, 1.1, 2)
"""Of the first sizes of a training, and of all others: where batches grow, sizes that are close would not be the last."""
WASTE = 4


def rung(n: int) -> int:
    """Return the smallest size of a geometric ladder that is at least n and at least 64: powers of two in six steps each."""
    if n <= LOWEST:
        return LOWEST
    base = 1 << ((n - 1).bit_length() - 1)
    return next((size for eighths in EIGHTHS if (size := base * eighths // 8) >= n), 2 * base)


def most_padded(n: int) -> int:
    """Return the largest size that a Ladder pads n entries to, with or without one entry that stands for none of them."""
    return max(LOWEST, WASTE * (n + 1))


class Ladder:
    """The padded sizes that one training uses, reused where they fit.

    A batch takes the smallest size used before that holds it, unless that is over four times too large; a new size is a rung
    with some headroom, so that the batches of a log share one or two sizes; where their sizes differ, steps are wide, since
    compiling a program costs more than what is padded. Padding never changes a result.
    """

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._lock = threading.Lock()

    def size(self, n: int) -> int:
        """Return the padded size for n entries, at least n."""
        with self._lock:
            at = bisect_left(self._sizes, n)
            if at == len(self._sizes) or self._sizes[at] > max(LOWEST, WASTE * n):
                headroom = HEADROOMS[min(len(self._sizes), len(HEADROOMS) - 1)]
                self._sizes.insert(at, rung(int(n * headroom)))
            return self._sizes[at]
