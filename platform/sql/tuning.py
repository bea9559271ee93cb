"""TUNE BY ... TRIALS ... METHOD ..."""

from __future__ import annotations

from ..errors import StatementError
from ..training.metrics.validations import HIGHER, LOWER
from ..training.tuning.space import METHODS, Tune
from .cursor import Cursor

MOST_TRIALS = 1000


def read_tune(cursor: Cursor) -> Tune:
    """Read what follows TUNE."""
    cursor.expect("BY")
    position, metric = cursor.position(), cursor.identifier("a metric").lower()
    if metric not in (*HIGHER, *LOWER):
        valid = ", ".join((*HIGHER, *LOWER))
        raise StatementError(f"TUNE BY expects a metric of which more or less is better: {valid}; got {metric!r}.", position)
    cursor.expect("TRIALS")
    position = cursor.position()
    trials = cursor.integer("a number of trials")
    if not 2 <= trials <= MOST_TRIALS:
        raise StatementError(f"TRIALS expects 2 to {MOST_TRIALS}, got {trials}.", position)
    position = cursor.position()
    method = cursor.identifier("a method").lower() if cursor.accept("METHOD") else METHODS[0]
    if method not in METHODS:
        raise StatementError(f"METHOD expects {', '.join(METHODS[:-1])} or {METHODS[-1]}, got {method!r}.", position)
    return Tune(metric, trials, method)
