"""The clause EVALUATE as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Evaluate:
    """EVALUATE EVERY `every` BATCHES ON `on` BATCHES [BY `by`]."""

    every: int
    on: int
    by: str | None
