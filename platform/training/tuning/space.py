"""The search space of TUNE (hyperparameters): options drawn evenly (Sobol), or all of a grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...engines.spark_sql.hparams import Hparam, HparamCandidates
from ...errors import StatementError
from ..clauses.tune import TUNE, Tune
from ..plan import Use

INFEASIBLE, STOPPED, SUCCEEDED, DEFAULT = "INFEASIBLE", "STOPPED", "SUCCEEDED", "default"


class Candidate(NamedTuple):
    """A candidate's options.

    Attributes:
        options: those that differ between candidates.
        algorithm: with them.
        statement: that trains them alone.
        default: none of what is tried is given.
        left_out: then, what has no default that is known.
    """

    options: dict[str, Any]
    algorithm: Use
    statement: str
    default: bool
    left_out: tuple[str, ...]


class Dimension(NamedTuple):
    """An option that is tried.

    Attributes:
        values: what it takes.
        whole: it takes whole numbers only.
    """

    values: Hparam
    whole: bool

    def at(self, share: float) -> Any:
        """Return the value at a share of the way, in [0, 1): of a range above 0 on a scale of logarithms."""
        if isinstance(self.values, HparamCandidates):
            return self.values.values[int(share * len(self.values.values))]
        low, high = self.values.low, self.values.high
        if self.whole:
            return min(math.floor(along(low, high + 1, share)), int(high))
        return short(along(low, high, share))


def short(number: float) -> float:
    """Return a number as short as a statement would write it."""
    return float(f"{number:.6g}")


def along(low: float, high: float, share: float) -> float:
    """Return the number at a share of the way."""
    return low * (high / low) ** share if low > 0 else low + share * (high - low)


def chosen(tune: Tune, space: Mapping[str, Dimension], seed: int) -> list[dict[str, Any]]:
    """Return the options of each trial, no two alike.

    Source: Sobol, "On the distribution of points in a cube and the approximate evaluation of integrals", 1967; scrambled by
    Owen, "Randomly permuted (t,m,s)-nets and (t,s)-sequences", 1995.

    Raises:
        StatementError: a grid has a range, or more points than trials.
    """
    if tune.method == "grid":
        return grid(tune, space)
    from scipy.stats import qmc  # takes 0.3 s

    points = qmc.Sobol(len(space), seed=seed).random_base2(math.ceil(math.log2(max(tune.trials, 2))))[: tune.trials]
    drawn = [{name: one.at(float(share)) for (name, one), share in zip(space.items(), point, strict=True)} for point in points]
    return [options for number, options in enumerate(drawn) if options not in drawn[:number]]


def grid(tune: Tune, space: Mapping[str, Dimension]) -> list[dict[str, Any]]:
    """Return every combination of candidates."""
    lists = []
    for name, one in space.items():
        if not isinstance(one.values, HparamCandidates):
            message = f"{TUNE} METHOD grid tries candidates, and {name} is a range. Write HPARAM_CANDIDATES."
            raise StatementError(message, subject=TUNE.subject)
        lists.append(one.values.values)
    points = math.prod(map(len, lists))
    if points > tune.trials:
        raise StatementError(
            f"{TUNE} METHOD grid has {points} combinations, and TRIALS says {tune.trials}. Raise it, or leave some out.",
            subject=TUNE.subject,
        )
    return [dict(zip(space, values, strict=True)) for values in itertools.product(*lists)]
