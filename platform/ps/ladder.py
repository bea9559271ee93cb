"""The short ladder of sizes that arrays are padded to, so that JAX compiles a handful of programs."""

from __future__ import annotations

LOWEST = 64
RATIO_EIGHTHS = (8, 9, 10, 11, 12, 14)


def rung(n: int) -> int:
    """Return the smallest size of the ladder that is at least n and at least 64: powers of two in six steps each.

    Padding is below 1/8 of the size; neighbouring batches of one log fall on one or two rungs.
    """
    if n <= LOWEST:
        return LOWEST
    base = 1 << ((n - 1).bit_length() - 1)
    return next((size for eighths in RATIO_EIGHTHS if (size := base * eighths // 8) >= n), 2 * base)
