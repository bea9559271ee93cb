"""How TUNE trains a candidate, beside its plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .checkpoints.warm_start import Beginning


@dataclass(frozen=True)
class Trial:
    """What TUNE asks of a training; other statements ask for nothing of it.

    Attributes:
        share: the share of the rows that is learned, the first ones; None: all.
        pause: the share of all batches after which it pauses, with a checkpoint; None: it makes a version.
        begins: what it takes over from another training.
        rows: where the query's rows are, which ran before: they become its own.
        judging: the file for its predictions of rows held out.
    """

    share: float | None = None
    pause: float | None = None
    begins: Beginning | None = None
    rows: Path | None = None
    judging: Path | None = None


NO_TRIAL = Trial()
"""What all statements but TUNE ask."""
