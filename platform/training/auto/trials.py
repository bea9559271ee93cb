"""Trials of USING auto: statements that are trained beside the model, judged on rows held out, and compared in pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....algorithms.population import MOST
from ...display import size_text
from ...errors import DataError, StatementError, Subject, TrainingError
from ..metrics.validations import HIGHER
from ..tuning.paired import Gain, JudgedRows, gain_of, neighbours
from ..tuning.space import DEFAULT, INFEASIBLE, SUCCEEDED
from .clock import BudgetClock, half_of_memory
from .forms import StatementForm
from .journal import TrialJournal
from .learner import OverBudgetError, TrialLearner
from .options import CHOOSING, EVERY, LEVEL, TELLING
from .takes import EACH_BESIDE, TimesTaken

SKIPPED = "SKIPPED"
KEPT = ("metric", "error", "status", "seconds", "examples", "features", "compile_seconds")
"""What a journal has of a trial."""
OWN = ("share", "features", "compile_seconds")
"""What ML.TRIAL_INFO does not show of one."""
RELATIVE = ("mae", "rmse", "mape", "pinball", "poisson_deviance")
"""Metrics in the label's own unit: a gain counts by its share."""


class AutoTrials:
    """The trials of a search.

    Args:
        learner: trains forms.
        simple: how much better a dearer form must be.
        anew: versions learn all rows anew.

    Attributes:
        forms, found: of each trial its form, and the line of ML.TRIAL_INFO.
        best: the number of the trial that none beats beyond chance so far.
    """

    def __init__(
        self,
        learner: TrialLearner,
        metric: str,
        simple: float,
        clock: BudgetClock,
        journal: TrialJournal,
        note: Callable[[str], None],
        anew: bool = False,
    ) -> None:
        self._learner, self._journal, self._note = learner, journal, note
        self.metric, self.clock = metric, clock
        self._simple = simple
        self.forms: list[StatementForm] = []
        self.found: list[dict[str, Any]] = []
        self._rows: dict[int, JudgedRows] = {}
        self._times = TimesTaken(anew)
        self.best = 0

    @property
    def form(self) -> StatementForm:
        """The form of the best trial."""
        return self.forms[self.best]

    @property
    def examples(self) -> int:
        """How many rows a trial of all rows learns."""
        return int(self.found[0]["examples"])

    def try_all(self, stage: str, forms: Sequence[StatementForm], share: float | None = None) -> list[int]:
        """Train forms as far as the budget reaches, and return those that can be judged."""
        fresh = [form for form in forms if share is not None or form not in self.tried]
        if share is None:
            self._learn_together(fresh)
        numbers: list[int] = []
        for place, form in enumerate(fresh):
            numbers.append(self._try(stage, form, share))
            later = fresh[place + 1 :]
            if later and self._stops(numbers[-1]) and all(one.algorithm == form.algorithm for one in later):
                self._note(f"{len(later)} more trials of {form.algorithm} are left out, as the budget does not reach for them.")
                break
        return [number for number in numbers if number in self._rows]

    def _stops(self, number: int) -> bool:
        """Return whether a trial was left out that costs no more than a plain one of its algorithm."""
        return bool(self.found[number]["status"] == SKIPPED and not self.forms[number].settings)

    @property
    def tried(self) -> list[StatementForm]:
        """The forms that were trained on all rows."""
        return [form for form, line in zip(self.forms, self.found, strict=True) if line["share"] == 1]

    def decide(self, numbers: Sequence[int], needs: float = 1.0) -> bool:
        """Take the best of some trials where it beats the best so far beyond chance; return whether one does.

        Args:
            needs: times `simple`, what the gain must be at least.
        """
        better = []
        for number in numbers:
            gain = self.gain(number, self.best)
            ratio = float(self.forms[number].cost / self.form.cost)
            least = needs * self._simple * max(1.0, math.log2(max(ratio, 1e-9))) * self.unit
            if gain.least(1 - LEVEL / len(numbers)) > least and self._reaches(number):
                better.append((gain.gain, number))
        if not better:
            return False
        self.take(max(better)[1])
        return True

    def take(self, number: int) -> None:
        """Go on from a trial."""
        self.best = number
        self._note(f"Trial {number} leads: {self.metric} {self.found[number]['metric']:.6g}.")

    def not_worse(self, number: int) -> bool:
        """Return whether a simpler form may take the place of the best one."""
        gain = self.gain(number, self.best)
        return gain.gain + gain.half > -self._simple * self.unit

    @property
    def unit(self) -> float:
        """What a gain of 1 is."""
        return abs(self.found[0]["metric"]) if self.metric in RELATIVE else 1.0

    def gain(self, number: int, other: int, part: str = CHOOSING) -> Gain:
        """Return by how much a trial is better than another one on a part of the rows held out."""
        one, two = (self._part(n, part) for n in (number, other))
        return gain_of(self.metric, one, two, neighbours(len(one.labels)))

    def told(self, number: int) -> tuple[float, float]:
        """Return the metric of a trial on the telling half, which chose nothing, and half of its interval of 95 %."""
        half = self._part(number, TELLING)
        gain = gain_of(self.metric, half, None, neighbours(len(half.labels)))
        return abs(gain.gain), gain.half

    def positives(self) -> int:
        """Return how many rows of the rarer label judge trials, or all rows where labels are not 0 or 1."""
        labels = self._part(0, CHOOSING).labels
        ones = int((labels == 1).sum())
        return min(ones, len(labels) - ones) if ((labels == 0) | (labels == 1)).all() else len(labels)

    @property
    def reserve(self) -> float:
        """The seconds that the version itself will take: the best form, on all rows."""
        return self._times.of_version(self.form, self.examples) if self.found else 0.0

    def _reaches(self, number: int) -> bool:
        """Return whether the budget reaches for the version of a trial."""
        takes, left = self._times.of_version(self.forms[number], self.examples), self.clock.left
        if takes > left:
            self._note(f"Trial {number} is better, but its version would take {takes:.1f} s of the {max(left, 0):.1f} s left.")
        return takes <= left

    def _part(self, number: int, part: str) -> JudgedRows:
        rows = self._rows[number]
        middle, end = len(rows.labels) // 2, len(rows.labels)
        return rows.part(*{CHOOSING: (0, middle), TELLING: (middle, end), EVERY: (0, end)}[part])

    def _try(self, stage: str, form: StatementForm, share: float | None) -> int:
        """Train a form and judge it; return its number."""
        number, statement = len(self.found), self._learner.statement(form)
        line: dict[str, Any] = {"trial_id": number, "stage": stage, "statement": statement, "by": self.metric}
        line["options"] = form.hyperparameters
        line |= {"metric": None, "error": None, "status": SKIPPED, "seconds": None, "examples": None, "share": share or 1}
        line |= {"difference": None, "low": None, "high": None, "is_optimal": False, "features": None}
        line |= {"compile_seconds": None}
        self.forms.append(form)
        self.found.append(line)
        key = key_of(statement, share)
        kept = self._journal.done.get(key)
        if kept is not None:
            line |= {name: kept[name] for name in KEPT}
        elif number and (why := self._too_much(form, share or 1.0)) is not None:
            line["error"] = why
        else:
            self._train(form, share, line, self._journal.rows(key))
            self._journal.add(key, {name: line[name] for name in KEPT}, self.clock.spent)
        if line["status"] in (SUCCEEDED, DEFAULT):
            if line["compile_seconds"] is not None:  # it learned alone
                self._times.add(form, (share or 1.0) * self.examples, line["seconds"], line["compile_seconds"])
            self._judge(number, self._journal.rows(key))
        return number

    def _learn_together(self, forms: Sequence[StatementForm]) -> None:
        """Train forms that differ in options alone side by side, where they can be, into the journal."""
        statements = {form: self._learner.statement(form) for form in forms}
        group = [form for form in forms if key_of(statements[form], None) not in self._journal.done]
        group = [form for form in group if form._replace(options=()) == group[-1]._replace(options=())][: self._trials_left]
        if len(group) < 2 or not self._learner.learns_together(group):
            return
        takes = self._times.of(group[-1], self.examples) * (1 + EACH_BESIDE * len(group))
        if takes > self.clock.left - self.reserve:
            return
        began, files = self.clock.spent, [self._journal.folder / f"together{n}.npz" for n in range(len(group))]
        try:
            learned = self._learner.learn_together(group, files, self._late)
        except (StatementError, TrainingError, DataError, OverBudgetError):
            return  # each alone says why
        seconds = (self.clock.spent - began) / len(group)
        line = {"examples": learned.examples, "features": learned.features, "seconds": seconds, "status": SUCCEEDED}
        line |= {"metric": None, "error": None, "compile_seconds": None}
        for form, file in zip(group, files, strict=True):
            key = key_of(statements[form], None)
            file.replace(self._journal.rows(key))
            self._journal.add(key, line, self.clock.spent)

    def _late(self) -> bool:
        """Return whether a training must stop, so that the version of the best form is made in time."""
        return self.clock.left < self.reserve

    @property
    def _trials_left(self) -> int:
        """How many trials the budget has left; of a time, as many as learn together."""
        most = self.clock.budget.trials
        return MOST if most is None else max(most - sum(one["status"] != SKIPPED for one in self.found), 0)

    def _judge(self, number: int, path: Path) -> None:
        """Say how a trial differs from the defaults on the choosing half."""
        self._rows[number], line = JudgedRows.of(path, 0, alone=True), self.found[number]
        if not np.array_equal(self._rows[number].labels, self._rows[0].labels):
            raise DataError("The rows have changed while USING auto tried statements on them. Run the statement again.")
        half = self._part(number, CHOOSING)
        line["metric"] = half.value(self.metric, half.labels == half.labels)
        if math.isnan(line["metric"]):
            one = len(np.unique(half.labels)) == 1
            alike = f"whose labels are all {half.labels[0]:g}" if one else "of which it is not known"
            raise StatementError(
                f"USING auto compares statements by {self.metric} on {len(half.labels):,} rows held out, {alike}. Choose "
                "another metric, or hold more rows out by VALIDATE.",
                subject=Subject("USING"),
            )
        if number:
            gain, bound = self.gain(number, 0)
            gain = gain if self.metric in HIGHER else -gain
            line |= {"difference": gain, "low": gain - bound, "high": gain + bound}
        self._note(f"Trial {number} ({line['stage']}): {self.metric} {line['metric']:.6g}, {line['seconds']:.1f} s")

    def _too_much(self, form: StatementForm, share: float) -> str | None:
        """Say why the budget does not reach for a form; None where it does."""
        budget = self.clock.budget
        if not self._trials_left:
            return f"The budget of {budget.trials} trials is spent."
        takes = self._times.of(form, self.examples * share)
        version = max(self.reserve, self._times.of_version(form, self.examples))
        if takes + version > self.clock.left:
            left = max(self.clock.left, 0)
            return f"It would take about {takes:.1f} s and a version {version:.1f} s, and {left:.1f} s are left of the budget."
        most = budget.memory_bytes or half_of_memory()
        if (size := self._learner.size(form, int(self.found[0]["features"]))) > most:
            return f"Its rows would take about {size_text(size)}, and the budget has {size_text(most)}."
        return None

    def _train(self, form: StatementForm, share: float | None, line: dict[str, Any], judged: Path) -> None:
        began, number = self.clock.spent, line["trial_id"]
        try:
            learned = self._learner.learn(form, share, judged, self._late if number else lambda: False)
            line |= {"examples": learned.examples, "features": learned.features, "status": SUCCEEDED if number else DEFAULT}
            line["compile_seconds"] = learned.compile_seconds
            if not judged.exists():
                line |= {"status": INFEASIBLE, "error": "It does not tell what it predicts of rows held out."}
        except OverBudgetError:
            line["error"] = f"It was stopped: {self.reserve:.1f} s of the budget are kept for the version."
        except (StatementError, TrainingError, DataError) as error:
            if not number:
                raise
            line |= {"status": INFEASIBLE, "error": str(error)}
        line["seconds"] = self.clock.spent - began


def key_of(statement: str, share: float | None) -> str:
    """Return what a journal calls a trial."""
    return f"{share or 1:g} {statement}"


def sorted_lines(lines: Sequence[Mapping[str, Any]], best: int) -> tuple[Mapping[str, Any], ...]:
    """Return the lines of ML.TRIAL_INFO, with the one that won."""
    kept = [{name: value for name, value in line.items() if name not in OWN} for line in lines]
    return tuple({**line, "is_optimal": number == best} for number, line in enumerate(kept))
