"""How rows keep values of vertices: a value of 64 bits is three floats of 22, 22 and 20 bits, which are whole numbers. The last
one is 2^20 more, which tells a vertex that has a row from one that has none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TABLE, PAIRS, NODE = "vertices", "pairs", "node"
"""The table, that of a program of pairs, and their slot, which both ends of edges are values of."""
BITS = 22
LIMBS = 3
THERE = 1 << 20


def as_row(values: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return values as rows keep them, float32[n, 3]."""
    bits = values.view(np.uint64)
    mask = np.uint64((1 << BITS) - 1)
    limbs = (bits & mask, (bits >> np.uint64(BITS)) & mask, (bits >> np.uint64(2 * BITS)) | np.uint64(THERE))
    return np.stack(limbs, axis=1).astype(np.float32)


def of_row(rows: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the values of rows, and which of them have one."""
    low, middle, high = rows.astype(np.uint64).T
    bits = low | (middle << np.uint64(BITS)) | ((high & np.uint64(THERE - 1)) << np.uint64(2 * BITS))
    return bits.view(np.int64), high >= THERE
