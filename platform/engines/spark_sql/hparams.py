"""Options that TUNE tries: what a statement writes in place of a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class HparamRange:
    """Any number from `low` to `high`."""

    low: float
    high: float


@dataclass(frozen=True)
class HparamCandidates:
    """One of some values."""

    values: tuple[Any, ...]


Hparam = HparamRange | HparamCandidates
