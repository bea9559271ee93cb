"""The cores of this machine that are ours."""

from __future__ import annotations

import os


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # which macOS lacks
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
