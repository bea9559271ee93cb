"""The cores of this machine that are ours, and what they are given to."""

from __future__ import annotations

import os

MOST_ENCODERS = 8
"""Each holds a chunk of 131,072 rows; so many encode faster than any algorithm learns."""


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # which macOS lacks
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def encoders(num_workers: int) -> int:
    """Return on how many threads one of several workers in this process reads and encodes: several workers are cores enough."""
    return min(cores(), MOST_ENCODERS) if num_workers == 1 else 1
