"""Bayesian search (TUNE METHOD bayes): further trials are drawn where those before were good, by optuna."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...engines.spark_sql.hparams import HparamCandidates
from ...errors import StatementError
from ...system import needing
from ..clauses.tune import TUNE, Tune
from ..metrics.validations import HIGHER
from .space import Candidate, Dimension, chosen, short

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

Made = Callable[[dict[str, Any]], Candidate]
Asked = tuple[dict[str, Any], "Trial"]

FEWEST_FIRST, SHARE_FIRST = 4, 3
DRAWS = 8  # of a trial, before one is taken that is not near good ones


class Search:
    """A search among the options of an algorithm.

    Args:
        made: makes the candidate of some values.
        seed: of what is drawn.

    Source: Watanabe, "Tree-Structured Parzen Estimator: Understanding Its Algorithm Components and Their Roles for Better
    Empirical Performance", arXiv 2304.11127, 2023.
    """

    def __init__(self, tune: Tune, space: Mapping[str, Dimension], made: Made, seed: int) -> None:
        self._tune, self._space, self._made, self._seed = tune, space, made, seed
        self._even = chosen(tune, space, seed)
        self._study: optuna.Study | None = None
        self._asked: list[Asked] = []
        self._seen: list[dict[str, Any]] = []

    @property
    def first(self) -> int:
        """How many trials fill the space evenly before the search begins."""
        return min(self._tune.trials, max(FEWEST_FIRST, self._tune.trials // SHARE_FIRST))

    def begin(self, points: Sequence[dict[str, Any]], values: Sequence[float | None]) -> None:
        """Begin with what is known of some points; None: a point could not be trained."""
        import optuna

        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            sampler = optuna.samplers.TPESampler(seed=self._seed, n_startup_trials=0)
            ways = optuna.study.StudyDirection
            direction = ways.MAXIMIZE if self._tune.metric in HIGHER else ways.MINIMIZE
            self._study = optuna.create_study(direction=direction, sampler=sampler)
        finally:
            optuna.logging.set_verbosity(before)
        for point, value in zip(points, values, strict=True):
            self._known(point, value)
        self._seen = list(points)

    def ask(self, count: int) -> list[Candidate]:
        """Return so many candidates, or fewer where nothing else is left to try."""
        self._asked = []
        for _ in range(count):
            if (found := self._drawn() or self._left()) is None:
                break
            self._seen.append(found[0])
            self._asked.append(found)
        return [self._made(point) for point, _ in self._asked]

    def _drawn(self) -> Asked | None:
        """Return a point near good ones; None where those that are drawn were tried."""
        assert self._study is not None
        for _ in range(DRAWS):
            drawn = self._study.ask(self._distributions)
            point = {name: self._value(name, drawn.params[name]) for name in self._space}
            if point not in self._seen:
                return point, drawn
            self._study.tell(drawn, state=failed())
        return None

    def _left(self) -> Asked | None:
        """Return the next of the points that fill the space evenly; None where all were tried."""
        assert self._study is not None
        for point in self._even:
            if point not in self._seen:
                self._study.enqueue_trial({name: self._inside(name, value) for name, value in point.items()})
                return point, self._study.ask(self._distributions)
        return None

    def tell(self, values: Sequence[float | None]) -> None:
        """Say what came of the candidates that were asked for last."""
        assert self._study is not None
        for (_, drawn), value in zip(self._asked, values, strict=True):
            if value is None:
                self._study.tell(drawn, state=failed())
            else:
                self._study.tell(drawn, rounded(value))

    def _known(self, point: Mapping[str, Any], value: float | None) -> None:
        import optuna

        assert self._study is not None
        if value is not None:
            inside = {name: self._inside(name, one) for name, one in point.items()}
            trial = optuna.trial.create_trial(params=inside, distributions=self._distributions, value=rounded(value))
            self._study.add_trial(trial)

    @property
    def _distributions(self) -> dict[str, BaseDistribution]:
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        found: dict[str, BaseDistribution] = {}
        for name, one in self._space.items():
            if isinstance(one.values, HparamCandidates):
                found[name] = CategoricalDistribution(range(len(one.values.values)))  # by place: values may be lists
            elif one.whole:
                found[name] = IntDistribution(int(one.values.low), int(one.values.high), log=one.values.low > 0)
            else:
                found[name] = FloatDistribution(one.values.low, one.values.high, log=one.values.low > 0)
        return found

    def _value(self, name: str, inside: Any) -> Any:
        one = self._space[name]
        if isinstance(one.values, HparamCandidates):
            return one.values.values[inside]
        return inside if one.whole else short(inside)

    def _inside(self, name: str, value: Any) -> Any:
        values = self._space[name].values
        if isinstance(values, HparamCandidates):
            return values.values.index(value)
        return min(max(value, values.low), values.high)


def rounded(value: float) -> float:
    """Return a metric without the digits in which two trainings of the same statement differ, so that both draw the same."""
    return float(f"{value:.9g}")


def failed() -> optuna.trial.TrialState:
    import optuna

    return optuna.trial.TrialState.FAIL


def require_optuna() -> None:
    """Require the package.

    Raises:
        StatementError: it is not installed.
    """
    if importlib.util.find_spec("optuna") is None:
        raise StatementError(needing(f"{TUNE} METHOD bayes needs the package optuna", "bayes"), subject=TUNE.subject)
