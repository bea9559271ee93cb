"""TUNE: options of the algorithm that are tried, and the metric that judges them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...engines.spark_sql.cursor import Cursor
from ...errors import StatementError
from ..metrics.validations import HIGHER, LOWER
from .base import Clause, as_record, record_of, same

BAYES = "bayes"
METHODS = ("random", "grid", "halving", BAYES)
MOST_TRIALS = 1000


@dataclass(frozen=True)
class Tune:
    """TUNE BY metric TRIALS n METHOD method.

    Attributes:
        found: the trials, once they are over, as ML.TRIAL_INFO shows them.
    """

    metric: str
    trials: int
    method: str
    found: tuple[Mapping[str, Any], ...] = ()


def read_tune(cursor: Cursor) -> Tune | None:
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


def shown(tune: Tune | None) -> Iterator[tuple[str, str | None]]:
    if tune is not None:
        yield "tune", f"BY {tune.metric} TRIALS {tune.trials} METHOD {tune.method}"


TUNE = Clause(
    "TUNE",
    "BY metric TRIALS n [METHOD {random | grid | halving | bayes}]",
    "Hyperparameter tuning: options of the algorithm written as `HPARAM_RANGE(low, high)` or "
    "`HPARAM_CANDIDATES(a, b)` are tried, and the best by a metric become the version's: see [tuning.md](tuning.md).",
    read_tune,
    None,
    same,
    as_record,
    record_of(Tune),
    shown=shown,
)
