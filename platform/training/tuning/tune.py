"""Hyperparameter tuning (TUNE): trainings of candidates over the same rows, and then the best one's.

Every candidate learns the rows in the same order from the same seed, in a warehouse that goes with the statement; a query that
cannot be read in place runs once for all of them. Candidates whose parameters are rows alone learn side by side in one
training, which reads, encodes and looks up once for all; others one after the other. `halving` judges all by the first rows,
the better half by twice as many, and so on. `bayes` draws further candidates where those before were good, some at a time.

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

from ....algorithms.population import MOST
from ....warehouse.durable import clear
from ....warehouse.models import Models
from ....warehouse.scratch import scratch
from ...engines.base import Engine, Staged
from ...errors import StatementError, TrainingError
from ...progress import SilentReporter
from ...quoting import quoted
from ..checkpoints.warm_start import Beginning, PausedError
from ..clauses.label import LABEL
from ..clauses.release import RELEASE
from ..clauses.settings import NONE
from ..clauses.tune import TUNE, Tune
from ..clauses.validate import VALIDATE
from ..metrics.labels import divided
from ..metrics.validations import HIGHER
from ..plan import Plan
from ..start import train
from ..trial import Trial
from .bayes import Search
from .paired import JudgedRows, gain_of
from .side_by_side import can_learn_together, together
from .space import DEFAULT, INFEASIBLE, STOPPED, SUCCEEDED, Candidate

if TYPE_CHECKING:
    from ....warehouse.manifest import Manifest
    from ...progress import Reporter

AT_ONCE = 4  # candidates that a search draws before it knows what comes of them, where they learn side by side
LAST = 2  # candidates that halving leaves, of which the better one is taken


def tuned(
    plan: Plan,
    tune: Tune,
    candidates: Sequence[Candidate],
    search: Search | None,
    engine: Engine,
    models: Models,
    reporter: Reporter,
) -> pa.Table:
    """Train every candidate, and the best one as the model's version.

    Args:
        search: gives further candidates after the first ones; None: there are no others.

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
        if search is not None:
            candidates = candidates[: search.first + candidates[0].default]
        trials = Judging(read, tune, candidates, engine, folder, reporter, can_learn_together(plan, candidates, schema))
        usual = [n for n, one in enumerate(candidates) if one.default]
        for n in usual:
            if candidates[n].left_out:
                reporter.note(f"Trial 0 leaves {', '.join(candidates[n].left_out)} out, whose default is not known.")
        alive = [n for n, one in enumerate(candidates) if not one.default]
        if tune.method == "halving" and len(alive) > LAST:
            while len(alive) > LAST:
                trials.judge([*usual, *alive], LAST / len(alive))
                alive = trials.better_half(alive)
        else:
            trials.judge([*usual, *alive], 1.0)
            if search is not None:
                alive = trials.searched(search, alive)
            alive = trials.better_half(alive)
        number = trials.decided(alive[0])
        winner = trials.candidates[number]
        plan = replace(plan, algorithm=winner.algorithm, statement=winner.statement)
        plan = plan.having(TUNE, replace(tune, found=tuple(trials.found)))
        rows = None if read.query == plan.query else folder / "rows"
        return train(plan, engine, models, reporter, Trial(begins=trials.begins([number]), rows=rows))


class TrialCheckpoint(NamedTuple):
    """How far candidates have learned side by side: the version that keeps their checkpoint, its training, and who they are."""

    folder: Path
    training: str
    labels: tuple[str, ...]
    group: tuple[int, ...]


class Judging:
    """Trainings of candidates, in a warehouse that goes with the statement, and what came of them.

    Attributes:
        candidates: those so far.
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
        self.candidates: list[Candidate] = []
        self._engine = engine
        self._folder = folder / "trials"
        self._reporter = reporter
        self._together = together
        self._reached: dict[int, TrialCheckpoint] = {}
        self._trained = 0
        self.found: list[dict[str, Any]] = []
        self._usual = 0 if candidates[0].default else None
        self.add(candidates)
        self._rows: dict[int, JudgedRows] = {}

    def judge(self, chosen: Sequence[int], share: float) -> None:
        """Train candidates on the beginning of the rows, or all, side by side where they can be, and judge them.

        Raises:
            StatementError: a candidate cannot be trained; or the metric is never known.
        """
        size = MOST if self._together else 1
        for start in range(0, len(chosen), size):
            self._judge(chosen[start : start + size], share)
            if self._tune.method != "halving":
                self._forget(self._best_first([n for n in range(len(self.candidates)) if n != self._usual])[:1])

    def add(self, candidates: Sequence[Candidate]) -> list[int]:
        """Take in candidates, and return their places."""
        start = len(self.candidates)
        self.candidates += candidates
        by, first = self._tune.metric, 0 if self._usual is not None else 1
        self.found += [
            {"trial_id": n, "options": one.options, "by": by, "metric": None, "error": None, "status": STOPPED}
            for n, one in enumerate(candidates, start + first)
        ]
        return [*range(start, len(self.candidates))]

    def searched(self, search: Search, judged: Sequence[int]) -> list[int]:
        """Judge further candidates, each drawn by what came of those before, and return all."""
        every = [*judged]
        search.begin([self.candidates[n].options for n in every], [self.found[n]["metric"] for n in every])
        while (left := self._tune.trials - len(every)) > 0:
            more = self.add(search.ask(min(left, AT_ONCE if self._together else 1)))
            if not more:
                break
            self.judge(more, 1.0)
            search.tell([self.found[n]["metric"] for n in more])
            every += more
        return every

    def begins(self, group: Sequence[int]) -> Beginning | None:
        """Return what candidates have learned so far, where that can be taken over; None where they begin anew."""
        reached = {self._reached[n].folder: self._reached[n] for n in group if n in self._reached}
        if len(reached) != 1 or any(n not in self._reached for n in group):
            return None
        (one,) = reached.values()
        return Beginning(one.folder, one.training, one.labels, tuple(one.group.index(n) for n in group))

    def _forget(self, alive: Sequence[int]) -> None:
        """Remove what candidates have learned that do not go on; the defaults stay."""
        alive = [*alive, *(() if self._usual is None else (self._usual,))]
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
        judged = self._folder / f"{self._trained}.npz"
        if self._plan.clause(VALIDATE) is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            trial = replace(trial, judging=judged)
        how = None if self._plan.clause(VALIDATE) is None else NONE  # the version alone learns rows that were held out
        settings = replace(self._plan.settings, held_out=how)
        plan = replace(self._plan, model="trial", replace=False, settings=settings).having(RELEASE, None)
        label = next(iter(plan.clause(LABEL).columns), "")
        labels = [label, *(f"trial {n + 1} of {label}" for n in group[1:])] if group[1:] else []
        use = self.candidates[group[0]].algorithm
        plan = together(plan, use, [self.candidates[n].algorithm.options for n in group], labels)
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
        seconds = (time.monotonic() - began) / len(group)
        for place, n in enumerate(group if judged.exists() else ()):
            self._rows[n] = JudgedRows.of(judged, place, not labels)
        by_label = divided(measured, labels).values() if labels else [measured]
        for n, values in zip(group, by_label, strict=True):
            self._note(n, values, examples, seconds)

    def _note(self, number: int, measured: Mapping[str, float | None], examples: int, seconds: float) -> None:
        value = measured.get(self._tune.metric)
        if value is None:
            known = ", ".join(name for name, one in measured.items() if one is not None and name != "examples")
            raise StatementError(
                f"{TUNE} BY {self._tune.metric}, which {self._plan.algorithm.name} does not measure on these rows. "
                f"Known: {known}.",
                subject=TUNE.subject,
            )
        line = self.found[number]
        status, before = DEFAULT if number == self._usual else SUCCEEDED, line.get("seconds", 0.0)
        line |= {"status": status, "metric": value, "examples": examples, "seconds": before + seconds}
        what = "the defaults" if number == self._usual else line["options"]
        self._reporter.note(f"Trial {line['trial_id']}: {self._tune.metric} {value:.6g}, {what}")

    def better_half(self, alive: Sequence[int]) -> list[int]:
        """Return the better half of candidates that were judged on the same rows, best first, of equal ones the first.

        Raises:
            TrainingError: none of them could be trained.
        """
        good = self._best_first(alive)
        if not good and self._usual is not None and self.found[self._usual]["status"] == DEFAULT:
            return [self._usual]
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
        good = [n for n in judged if self.found[n]["status"] in (SUCCEEDED, DEFAULT)]
        return sorted(good, key=lambda n: (sign * self.found[n]["metric"], n))

    def decided(self, best: int) -> int:
        """Return the candidate that wins, say of all whether they are, and note why: the best one, or the defaults where that
        is not better beyond what chance explains."""
        usual, metric = self._usual, self._tune.metric
        winner, why = best, ""
        if usual is not None and self.found[usual]["status"] == DEFAULT:
            winner, why = self._against(best, usual)
        for number, trial in enumerate(self.found):
            trial["is_optimal"] = number == winner
        line, tried = self.found[winner], len(self.found) - (usual is not None)
        options = ", ".join(f"{name} = {value}" for name, value in line["options"].items())
        what = f"is the best of {tried}" if winner != usual else f"has the defaults, and none of {tried} beats them"
        said = f": {options}" if options else ""
        self._reporter.note(f"Trial {line['trial_id']} {what}, {metric} {line['metric']:.6g}{said}{why}")
        return winner

    def _against(self, best: int, usual: int) -> tuple[int, str]:
        """Return the winner of the best candidate and the defaults, and why."""
        metric = self._tune.metric
        if self._best_first([best, usual])[0] == usual or self.found[best]["metric"] == self.found[usual]["metric"]:
            return usual, ""
        if best not in self._rows or usual not in self._rows:
            known = self.found[usual]["metric"]
            return best, f"; the defaults have {known:.6g}. VALIDATE would show whether the difference is chance."
        gain, half = gain_of(metric, self._rows[best], self._rows[usual])
        told = f"{gain:.3g} +- {half:.2g} (95 %, on the same rows)"
        if gain > half:
            return best, f"; better than the defaults by {told}."
        return usual, f"; trial {self.found[best]['trial_id']} differs by {told}."


def judging(manifest: Manifest) -> dict[str, float | None]:
    """Return the metrics that judge a candidate: of VALIDATE's rows, else over EVALUATE's windows, else of the first pass."""
    return dict(manifest.validation or manifest.evaluation or manifest.metrics)
