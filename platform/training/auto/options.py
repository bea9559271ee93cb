"""The options of USING auto."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import Subject
from ...options import option
from ..metrics.validations import HIGHER, LOWER
from .forms import FAMILIES

AUTO = "auto"
SUBJECT = Subject("USING", AUTO)
HELD = {100_000: 0.4, 400_000: 0.3}
"""The share of rows that judge, of logs with fewer rows: of few rows it takes a larger part to tell a difference."""
FEWEST_HELD = 0.2
"""That of longer logs."""

CHOOSING, TELLING, EVERY = "choosing", "telling", "every"
"""Parts of the rows held out: the half that chooses, the half that tells, and both."""
LEVEL = 0.05
"""How often a stage may take what is better by chance."""


@dataclass(frozen=True)
class AutoOptions:
    metric: str | None = option(
        None, "what is compared; by default auc, of numbers rmse, of classes logloss", choices=(*HIGHER, *LOWER)
    )
    algorithms: tuple[str, ...] = option(FAMILIES, "what is tried beside xftrl, each with its defaults first")
    most_crosses: int = option(20, "crosses of slots at most", minimum=0, maximum=200)
    simple: float = option(0.0005, "how much better a dearer statement must be, beyond chance", minimum=0)
    leaks: str = option(
        "refuse",
        "columns that alone tell the label: refuse the statement, drop them, or keep them with a note",
        choices=("refuse", "drop", "keep"),
    )


def held_of(rows: int) -> float:
    """Return the share of a log's rows that is held out."""
    return next((share for most, share in HELD.items() if rows < most), FEWEST_HELD)
