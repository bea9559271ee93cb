"""TUNE: trainings of candidates, one after the other, over the same rows, and then that of the best.

Every candidate learns the rows in the same order from the same seed, in a warehouse that goes with the statement; a query that
cannot be read in place runs once for all of them. The best one's options are then trained as any statement would train them, so
that its version is that of its own training.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ....warehouse.durable import clear
from ....warehouse.models import Models
from ....warehouse.scratch import scratch
from ...engines.base import Engine, Staged
from ...errors import StatementError, TrainingError
from ...progress import SilentReporter
from ...quoting import quoted
from ..plan import Plan, Use
from ..start import train
from .space import TUNE, Tune, better

if TYPE_CHECKING:
    from ....warehouse.manifest import Manifest
    from ...progress import Reporter

INFEASIBLE, SUCCEEDED = "INFEASIBLE", "SUCCEEDED"


class Candidate(NamedTuple):
    """Options that are tried.

    Attributes:
        options: those that differ between candidates.
        algorithm: with them.
        statement: that trains them alone.
    """

    options: dict[str, Any]
    algorithm: Use
    statement: str


def tuned(
    plan: Plan, tune: Tune, candidates: Sequence[Candidate], engine: Engine, models: Models, reporter: Reporter
) -> pa.Table:
    """Train every candidate, and the best one as the model's version.

    Returns:
        As `train`, of the best.

    Raises:
        StatementError: a candidate cannot be trained; or the metric is never known.
        TrainingError: the numbers of all grew beyond all bounds.
        XpsqlError: as `train`.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(models.warehouse))
        read = plan
        if plan.passing or isinstance(engine.scan(plan.query), Staged):
            engine.stage(plan.query, folder / "rows")  # once for all
            rows = quoted(str((folder / "rows").absolute()))
            read = replace(plan, query=f"SELECT * FROM parquet.{rows}", passing=False)
        trials = [tried(number, read, tune, one, engine, folder, reporter) for number, one in enumerate(candidates, 1)]
        best = best_of(tune, trials)
        for trial in trials:
            trial["is_optimal"] = trial is best
        winner = candidates[best["trial_id"] - 1]
        told = ", ".join(f"{name} = {value}" for name, value in winner.options.items())
        reporter.note(f"Trial {best['trial_id']} is the best of {len(trials)}, {tune.metric} {best['metric']:.6g}: {told}")
        plan = replace(plan, algorithm=winner.algorithm, statement=winner.statement, trials=tuple(trials))
        return train(plan, engine, models, reporter)


def tried(
    number: int, plan: Plan, tune: Tune, candidate: Candidate, engine: Engine, folder: Path, reporter: Reporter
) -> dict[str, Any]:
    """Train a candidate, judge it, and forget its rows."""
    own = folder / "trials"
    trial: dict[str, Any] = {"trial_id": number, "options": candidate.options, "by": tune.metric, "metric": None, "error": None}
    named = replace(plan, model=f"trial_{number}", algorithm=candidate.algorithm, release=None, replace=False)
    models = Models(own)
    try:
        train(named, engine, models, SilentReporter())
    except TrainingError as error:  # numbers grew beyond all bounds
        return {**trial, "status": INFEASIBLE, "error": str(error)}
    manifest = models.version(named.model).manifest
    measured = judging(manifest)
    value = measured.get(tune.metric)
    clear(own)
    if value is None:
        known = ", ".join(name for name, one in measured.items() if one is not None and name != "examples")
        raise StatementError(
            f"{TUNE} BY {tune.metric}, which is never known of these rows and {plan.algorithm.name}. Known: {known}.",
            subject=TUNE,
        )
    trial |= {"status": SUCCEEDED, "metric": value, "examples": manifest.examples, "seconds": manifest.seconds}
    reporter.note(f"Trial {number}: {tune.metric} {value:.6g}, {candidate.options}")
    return trial


def judging(manifest: Manifest) -> dict[str, float | None]:
    """Return the metrics that judge a candidate: of VALIDATE's rows, else over EVALUATE's windows, else of the first pass."""
    return dict(manifest.validation or manifest.evaluation or manifest.metrics)


def best_of(tune: Tune, trials: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the best trial, of equal ones the first.

    Raises:
        TrainingError: none succeeded.
    """
    good = [trial for trial in trials if trial["status"] == SUCCEEDED]
    if not good:
        raise TrainingError(f"None of {len(trials)} trials could be trained. The first one: {trials[0]['error']}")
    best = good[0]
    for trial in good[1:]:
        if better(tune.metric, trial["metric"], best["metric"]):
            best = trial
    return best
