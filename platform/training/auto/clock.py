"""What is left of a budget, in time and memory."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass

from ..clauses.budget import Budget

now = time.monotonic
"""What time is: a benchmark that compares CPU seconds takes those."""


@dataclass
class BudgetClock:
    """What is left of a budget.

    Attributes:
        budget: in time or trials.
        before: seconds that the search took before it was killed.
    """

    budget: Budget
    before: float = 0.0

    def __post_init__(self) -> None:
        self._began = now()

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return self.before + now() - self._began

    @property
    def left(self) -> float:
        """Seconds that are left; of trials there is no end of time."""
        return math.inf if self.budget.seconds is None else self.budget.seconds - self.spent


def half_of_memory() -> int:
    """Return half of the machine's memory, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
