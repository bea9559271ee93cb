"""Cases of a test that `make test` runs, beside those that `make test-slow` runs alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

slow = pytest.mark.slow
"""Marks a test that `make test` leaves to `make test-slow`."""
lengthy = pytest.mark.lengthy
"""Marks a test that takes seconds: `make test` leaves it to `make test-slow`, which compiles it as `make test` does."""
costly = pytest.mark.costly
"""Marks a test that takes seconds, of a kind of which `make test` runs another: it leaves this one to `make test-rest`."""
costly_after_first = pytest.mark.costly_after_first
"""Marks a test whose first case `make test` runs, and leaves the others to `make test-rest`."""
slow_elsewhere = pytest.mark.slow_elsewhere
"""Marks a test that `make test` runs on the embedded engine in this process alone: it holds what is above those."""


def quick(cases: Iterable[Any], taken: Collection[Any]) -> list[Any]:
    """Return all cases, those that are not taken for `make test-slow` alone: each has another one of its kind that is taken."""
    found = list(cases)
    missing = [case for case in taken if case not in found]
    assert not missing, f"{missing} are no cases"
    values = [case if isinstance(case, tuple) else (case,) for case in found]
    return [pytest.param(*one, marks=() if case in taken else slow) for case, one in zip(found, values, strict=True)]
