"""The clause EVALUATE as data."""

from __future__ import annotations

from typing import NamedTuple


class Evaluate(NamedTuple):
    """EVALUATE EVERY `every` BATCHES ON `on` BATCHES [BY `by`]."""

    every: int
    on: int
    by: str | None
