"""Hyperparameter tuning (TUNE): trainings of candidates over the same rows, and then the best one's.

Every candidate learns the rows in the same order from the same seed, in a warehouse that goes with the statement; a query that
cannot be read in place runs once for all of them. Candidates whose parameters are rows alone learn side by side in one
training, which reads, encodes and looks up once for all; others one after the other. `halving` judges all by the first rows,
the better half by twice as many, and so on.

Candidates that learn side by side pause where they are judged: those that go on take over their columns from there, and so
does the best one, whose version is that of its own training bit by bit. Of others, and on tasks by `halving`, a judgement is a
training of its own, and the best one's options are trained in the end as any statement would train them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ....algorithms.population import ALIKE, MOST, POPULATION, TOGETHER, PopulationOptions
from ....warehouse.durable import clear
from ....warehouse.models import Models
from ....warehouse.scratch import scratch
from ... import parts
from ...engines.base import Engine, Staged
from ...errors import StatementError, TrainingError
from ...progress import SilentReporter
from ...quoting import quoted
from ..checkpoints.begins import Beginning, PausedError
from ..clauses.label import LABEL
from ..clauses.release import RELEASE
from ..clauses.tune import HIGHER, TUNE, Tune
from ..clauses.validate import VALIDATE
from ..metrics.labels import divided
from ..plan import NONE, Plan, Use
from ..start import train
from ..trial import Trial

if TYPE_CHECKING:
    from ....warehouse.manifest import Manifest
    from ...progress import Reporter

LAST = 2  # candidates that halving leaves, of which the better one is taken
INFEASIBLE, STOPPED, SUCCEEDED = "INFEASIBLE", "STOPPED", "SUCCEEDED"


class Candidate(NamedTuple):
    """A candidate's options.

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
    with scratch(models.warehouse) as folder:
        schema = engine.schema(plan.query)
        read = plan
        if plan.passing or isinstance(engine.scan(plan.query), Staged):
            engine.stage(plan.query, folder / "rows")  # once for all
            there = quoted(str((folder / "rows").absolute()))
            read = replace(plan, query=f"SELECT * FROM parquet.{there}", passing=False)
        trials = Judging(read, tune, candidates, engine, folder, reporter, can_learn_together(plan, candidates, schema))
        alive = list(range(len(candidates)))
        if tune.method == "halving" and len(alive) > LAST:
            while len(alive) > LAST:
                trials.judge(alive, LAST / len(alive))
                alive = trials.better_half(alive)
        else:
            trials.judge(alive, 1.0)
            alive = trials.better_half(alive)[:1]
        best = trials.kept(alive[0])
        winner = candidates[alive[0]]
        options = ", ".join(f"{name} = {value}" for name, value in winner.options.items())
        reporter.note(
            f"Trial {best['trial_id']} is the best of {len(candidates)}, {tune.metric} {best['metric']:.6g}: {options}"
        )
        begins = trials.begins(alive[:1])
        plan = replace(plan, algorithm=winner.algorithm, statement=winner.statement)
        plan = plan.having(TUNE, replace(tune, found=tuple(trials.found)))
        rows = None if read.query == plan.query else folder / "rows"
        return train(plan, engine, models, reporter, Trial(begins=begins, rows=rows))


def can_learn_together(plan: Plan, candidates: Sequence[Candidate], schema: pa.Schema) -> bool:
    """Return whether candidates can learn side by side: their parameters are rows, of one label that is a number."""
    differing = {name for one in candidates for name in one.options}
    labels = [name.lower() for name in plan.clause(LABEL).columns]
    label = next((field for field in schema if [field.name.lower()] == labels), None)
    return (
        plan.algorithm.name in TOGETHER
        and not differing & {*ALIKE}
        and plan.settings.task == "auto"
        and plan.settings.patience is None
        and not plan.settings.vectors
        and label is not None
        and not pa.types.is_string(label.type)
        and not any(use.on for use in plan.operators)
    )


class TrialCheckpoint(NamedTuple):
    """How far candidates have learned side by side: the version that keeps their checkpoint, its training, and who they are."""

    folder: Path
    training: str
    labels: tuple[str, ...]
    group: tuple[int, ...]


class Judging:
    """Trainings of candidates, in a warehouse that goes with the statement, and what came of them.

    Attributes:
        found: a line of ML.TRIAL_INFO for each candidate.
    """

    def __init__(
        self,
        plan: Plan,
        tune: Tune,
        candidates: Sequence[Candidate],
        engine: Engine,
        folder: Path,
        reporter: Reporter,
        together: bool,
    ) -> None:
        self._plan = plan
        self._tune = tune
        self._candidates = candidates
        self._engine = engine
        self._folder = folder / "trials"
        self._reporter = reporter
        self._together = together
        self._reached: dict[int, TrialCheckpoint] = {}
        self._trained = 0
        self.found: list[dict[str, Any]] = [
            {"trial_id": n, "options": one.options, "by": tune.metric, "metric": None, "error": None, "status": STOPPED}
            for n, one in enumerate(candidates, 1)
        ]

    def judge(self, chosen: Sequence[int], share: float) -> None:
        """Train candidates on the beginning of the rows, or all, side by side where they can be, and judge them.

        Raises:
            StatementError: a candidate cannot be trained; or the metric is never known.
        """
        size = MOST if self._together else 1
        for start in range(0, len(chosen), size):
            self._judge(chosen[start : start + size], share)
            if self._tune.method != "halving":
                self._forget(self._best_first(chosen[: start + size])[:1])

    def begins(self, group: Sequence[int]) -> Beginning | None:
        """Return what candidates have learned so far, where that can be taken over; None where they begin anew."""
        reached = {self._reached[n].folder: self._reached[n] for n in group if n in self._reached}
        if len(reached) != 1 or any(n not in self._reached for n in group):
            return None
        (one,) = reached.values()
        return Beginning(one.folder, one.training, one.labels, tuple(one.group.index(n) for n in group))

    def _forget(self, alive: Sequence[int]) -> None:
        """Remove what candidates have learned that do not go on."""
        kept = {self._reached[n].folder for n in alive if n in self._reached}
        for number, one in [*self._reached.items()]:
            if one.folder not in kept:
                clear(one.folder.parents[2])
                del self._reached[number]

    def _judge(self, group: Sequence[int], share: float) -> None:
        self._trained += 1
        folder = self._folder / str(self._trained)
        counts = any(use.name == "safety" for use in self._plan.operators)  # what it refuses, of all candidates together
        pauses = self._together and not counts and (share == 1 or self._engine.tasks is None)
        trial = Trial(pause=share, begins=self.begins(group)) if pauses else Trial(share if share < 1 else None)
        how = None if self._plan.clause(VALIDATE) is None else NONE  # the version alone learns rows that were held out
        settings = replace(self._plan.settings, held_out=how)
        plan = replace(self._plan, model="trial", replace=False, settings=settings).having(RELEASE, None)
        label = next(iter(plan.clause(LABEL).columns), "")
        labels = [label, *(f"trial {n + 1} of {label}" for n in group[1:])] if group[1:] else []
        use = self._candidates[group[0]].algorithm
        plan = together(plan, use, [self._candidates[n].algorithm.options for n in group], labels)
        models, began = Models(folder), time.monotonic()
        try:
            train(plan, self._engine, models, SilentReporter(), trial)
            manifest = models.version(plan.model).manifest
            measured, examples = judging(manifest), manifest.learned.examples
            clear(folder)
        except PausedError as paused:
            measured, examples = paused.metrics, paused.examples
            for n in group:
                self._reached[n] = TrialCheckpoint(paused.folder, paused.training, plan.clause(LABEL).columns, tuple(group))
        except TrainingError as error:  # numbers grew beyond all bounds
            clear(folder)
            for n in group if group[1:] else ():
                self._judge([n], share)
            if not group[1:]:
                self.found[group[0]] |= {"status": INFEASIBLE, "error": str(error), "metric": None}
            return
        seconds = time.monotonic() - began
        by_label = divided(measured, labels).values() if labels else [measured]
        for n, values in zip(group, by_label, strict=True):
            self._note(n, values, examples, seconds)

    def _note(self, number: int, measured: Mapping[str, float | None], examples: int, seconds: float) -> None:
        value = measured.get(self._tune.metric)
        if value is None:
            known = ", ".join(name for name, one in measured.items() if one is not None and name != "examples")
            raise StatementError(
                f"{TUNE} BY {self._tune.metric}, which is never known of these rows and {self._plan.algorithm.name}. "
                f"Known: {known}.",
                subject=TUNE.subject,
            )
        line = self.found[number]
        line |= {"status": SUCCEEDED, "metric": value, "examples": examples, "seconds": seconds}
        self._reporter.note(f"Trial {number + 1}: {self._tune.metric} {value:.6g}, {line['options']}")

    def better_half(self, alive: Sequence[int]) -> list[int]:
        """Return the better half of candidates that were judged on the same rows, best first, of equal ones the first.

        Raises:
            TrainingError: none of them could be trained.
        """
        good = self._best_first(alive)
        if not good:
            raise TrainingError(f"None of {len(alive)} trials could be trained. The first one: {self.found[alive[0]]['error']}")
        kept = good[: -(-len(alive) // 2)]
        if self._tune.method == "halving":
            for n in good[len(kept) :]:
                self.found[n]["status"] = STOPPED
            self._forget(kept)
        return kept

    def _best_first(self, judged: Sequence[int]) -> list[int]:
        """Return the candidates that could be trained, of equal ones the first first."""
        sign = -1 if self._tune.metric in HIGHER else 1
        good = [n for n in judged if self.found[n]["status"] == SUCCEEDED]
        return sorted(good, key=lambda n: (sign * self.found[n]["metric"], n))

    def kept(self, best: int) -> dict[str, Any]:
        """Return the line of the best candidate, and say of all whether they are."""
        for number, trial in enumerate(self.found):
            trial["is_optimal"] = number == best
        return self.found[best]


def together(plan: Plan, use: Use, options: Sequence[Any], labels: Sequence[str]) -> Plan:
    """Return the plan of candidates side by side, each with a copy of the label; of one alone its own."""
    if not labels:
        return replace(plan, algorithm=use)
    label = quoted(labels[0])
    copies = ", ".join(f"{label} AS {quoted(name)}" for name in labels[1:])

    def copied(query: str) -> str:
        return f"SELECT *, {copies} FROM ({query})"

    validate = plan.clause(VALIDATE)
    if validate is not None and validate.query is not None:
        validate = replace(validate, query=copied(validate.query))
    population = Use(use.name, {}, PopulationOptions(parts.ALGORITHM.find(use.name, None), tuple(options)), part=POPULATION)
    plan = replace(plan, algorithm=population, query=copied(plan.query)).having(VALIDATE, validate)
    return plan.having(LABEL, replace(plan.clause(LABEL), columns=tuple(labels)))


def judging(manifest: Manifest) -> dict[str, float | None]:
    """Return the metrics that judge a candidate: of VALIDATE's rows, else over EVALUATE's windows, else of the first pass."""
    return dict(manifest.validation or manifest.evaluation or manifest.metrics)
