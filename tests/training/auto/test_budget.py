"""Budgets of time: a search on a machine of any speed ends in time, its version included, and uses what it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.cases import costly_after_first, lengthy
from xpsql.platform.training.auto import clock
from xpsql.platform.training.auto.clock import BudgetClock
from xpsql.platform.training.auto.forms import StatementForm
from xpsql.platform.training.auto.journal import TrialJournal
from xpsql.platform.training.auto.learner import LearnedTrial, OverBudgetError
from xpsql.platform.training.auto.look import FirstLook
from xpsql.platform.training.auto.options import AutoOptions
from xpsql.platform.training.auto.screen import ScreenedRows
from xpsql.platform.training.auto.stages import StagedSearch, searched
from xpsql.platform.training.auto.trials import AutoTrials
from xpsql.platform.training.clauses.budget import Budget
from xpsql.platform.training.clauses.settings import Settings
from xpsql.platform.training.tuning.paired import JudgedRows

ROWS, HELD = 100_000, 4000
BASE = StatementForm("xftrl")


class SlowMachine:
    """A machine whose time passes only while it learns: each training takes what it costs, times what others leave of it.

    Args:
        speed: rows of xftrl a second.
        compiles: seconds of an algorithm's first training.
        loads: how much longer a training may take, drawn anew for each.
    """

    def __init__(self, speed: float, compiles: float, loads: Sequence[float]) -> None:
        self.speed, self.compiles, self.loads = speed, compiles, loads
        self.time, self.compiled, self.known = 0.0, 0.0, set[StatementForm]()
        self.random = np.random.default_rng(1)
        self.labels = (self.random.random(HELD) < 0.4).astype(np.float32)

    def takes(self, form: StatementForm, share: float, beside: int = 0) -> float:
        self.compiled = 0.0 if form in self.known else self.compiles * form.cost**0.5
        self.known.add(form)
        seconds = 0.3 + self.compiled + form.cost * (1 + 0.2 * beside) * ROWS * share / self.speed
        return seconds * float(self.random.choice(self.loads))

    def works(self, seconds: float, late: Callable[[], bool]) -> None:
        for _ in range(50):
            self.time += seconds / 50
            if late():
                raise OverBudgetError

    def statement(self, form: StatementForm) -> str:
        return repr(form)

    def learn(self, form: StatementForm, share: float | None, judged: Path, late: Callable[[], bool]) -> LearnedTrial:
        self.works(self.takes(form, share or 1.0), late)
        self.judge(form, judged)
        return LearnedTrial(ROWS, 1000, self.compiled)

    def learns_together(self, forms: Sequence[StatementForm]) -> bool:
        return forms[0].algorithm in ("xftrl", "fm", "ffm")

    def learn_together(self, forms: Sequence[StatementForm], judged: Sequence[Path], late: Callable[[], bool]) -> LearnedTrial:
        self.works(self.takes(forms[0], 1.0, len(forms)), late)
        for form, path in zip(forms, judged, strict=True):
            self.judge(form, path)
        return LearnedTrial(ROWS, 1000)

    def size(self, form: StatementForm, features: int) -> int:
        return 0

    def judge(self, form: StatementForm, path: Path) -> None:
        """The dearer, the better: the search is led to what takes longest."""
        score = (self.labels - 0.5) * (0.3 + 0.2 * np.log2(form.cost)) + self.random.normal(size=HELD)
        rows = JudgedRows(self.labels, (1 / (1 + np.exp(-score))).astype(np.float32)[None], "classes")
        rows.write(path)

    def version(self, form: StatementForm) -> None:
        """It learns the rows held out, too, all anew where a later pass was the best or all are learned at once."""
        anew = bool(form.settings) or form.algorithm in ("owlqn", "xgboost")
        self.time += self.takes(form, 1.25) + (self.takes(form, 1.0) if anew else 0.0)


def search(
    machine: SlowMachine, seconds: float, folder: Path, monkeypatch: pytest.MonkeyPatch, recurs: bool = True
) -> AutoTrials:
    monkeypatch.setattr(clock, "now", lambda: machine.time)
    nothing = ScreenedRows((), [], np.zeros(100), np.zeros(100), numbers=False)
    looked = FirstLook(cast(Any, None), ROWS, nothing, False, {}, {}, (), {}, {}, (), False, False)
    journal = TrialJournal(folder, json.dumps([seconds, machine.speed]), goes_on=False)
    budget = BudgetClock(Budget(seconds, None, None, f"{seconds} SECONDS"))
    trials = AutoTrials(machine, "auc", 0.0005, budget, journal, lambda text: None)
    searched(StagedSearch(trials, looked, AutoOptions(), False, False, Settings(), recurs, lambda text: None), BASE)
    machine.version(trials.form)
    return trials


@costly_after_first
@pytest.mark.parametrize("speed", [20_000, 100_000, 1_000_000])
@pytest.mark.parametrize("seconds", [30, 60, 120, 600])
@pytest.mark.parametrize("loads", [(1,), (0.7, 1, 1.3)], ids=["even", "uneven"])
def test_a_search_and_its_version_end_within_a_fifth_of_the_budget(
    speed: float, seconds: float, loads: Sequence[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = SlowMachine(speed, 2.0, loads)
    trials = search(machine, seconds, tmp_path / "journal", monkeypatch)
    assert machine.time <= 1.2 * seconds
    left_out = [line for line in trials.found if line["status"] == "SKIPPED"]
    assert not left_out or machine.time >= 0.4 * seconds


@lengthy
def test_the_options_of_the_two_best_algorithms_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = search(SlowMachine(1_000_000, 0.1, (1,)), 6000, tmp_path / "journal", monkeypatch, recurs=False)
    tried = [form for form, line in zip(trials.forms, trials.found, strict=True) if line["stage"] == "options"]
    assert len({form.algorithm for form in tried}) == 2
    assert all(sum(form.algorithm == one.algorithm for one in tried) > 8 for form in tried)


@pytest.mark.parametrize("recurs", [True, False])
def test_networks_learn_in_several_passes_where_rows_that_judge_are_drawn_at_random(
    recurs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = search(SlowMachine(1_000_000, 0.1, (1,)), 6000, tmp_path / "journal", monkeypatch, recurs)
    tried = [form for form, line in zip(trials.forms, trials.found, strict=True) if line["stage"] == "several passes"]
    assert [form.algorithm for form in tried] == (["xnn", "dcn"] if recurs else [])
    assert all(form.operators == ("adam (whole = true, l2 = 100) ON vectors",) for form in tried)
    taken = [
        dict(form.options) for form in trials.forms if form.operators
    ]  # the dearest is the best, and its options are tried
    assert not any("vector_learning_rate" in options for options in taken)
    assert any("learning_rate" in options for options in taken) == recurs


def test_a_training_that_takes_far_longer_than_told_is_stopped_for_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = SlowMachine(50_000, 2.0, (1,))
    usual = machine.takes
    monkeypatch.setattr(machine, "takes", lambda form, *rest: usual(form, *rest) * (20 if form.algorithm == "xnn" else 1))
    trials = search(machine, 120, tmp_path / "journal", monkeypatch)
    assert machine.time <= 1.2 * 120
    stopped, *_ = (line for line in trials.found if "'xnn'" in line["statement"])
    assert stopped["status"] == "SKIPPED"
    assert "was stopped" in stopped["error"]
    assert trials.form.algorithm != "xnn"
