"""A loop of deep calls maps its stack once, not at each call."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable

import pytest

from xpsql.platform.stacks import roomy

DEPTHS, CALLS, FEW = range(1, 250), 200, 100


def faults_at(depth: int) -> int:
    """Return the page faults of calls that begin so deep in the stack."""
    if depth:
        return faults_at(depth - 1)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(CALLS):
        wide(*range(100))
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def wide(*values: int) -> int:
    return sum(values) + len({*values})


def faults(begin: Callable[[int], int]) -> int:
    """Return the most page faults of a depth at which a chunk of the stack may end, on a thread of its own."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(begin(depth) for depth in DEPTHS))
    thread.start()
    thread.join()
    return max(found)


def test_calls_at_any_depth_fault_seldom_below_a_roomy_frame() -> None:
    assert faults(roomy(faults_at)) < FEW


def test_a_roomy_function_is_still_itself() -> None:
    assert roomy(wide)(1, 2) == 5
    assert (roomy(wide).__name__, roomy(wide).__doc__) == (wide.__name__, wide.__doc__)
    with pytest.raises(TypeError):
        roomy(faults_at)()  # type: ignore[call-arg]
