"""What trials and the version of a search take, in seconds, as far as can be told from those before."""

from __future__ import annotations

from typing import NamedTuple

from .forms import AT_ONCE, LINEAR, StatementForm

BEGIN_SECONDS, ROWS_PER_SECOND = 0.7, 300_000
"""What a trial takes beside its rows, and rows a second of xftrl."""
COMPILE_SECONDS = {**dict.fromkeys(LINEAR, 1.0), "fm": 1.0, "ffm": 2.0, "owlqn": 0.5, "xgboost": 0.0}
NETWORK_SECONDS, RATES_SECONDS = 4.0, 2.0
"""What it takes at least to compile an algorithm's programs, a network's, and in any of them recent click rates."""
EACH_BESIDE = 0.2
"""What one more trial beside others takes of a training."""
MARGIN = 1.2
"""By how much the version may take longer than is told."""
END_SECONDS = 0.5


class Took(NamedTuple):
    """What a training took: to compile, and for so much work, rows times their cost."""

    compile_seconds: float
    seconds: float
    work: float


class FormKind(NamedTuple):
    """What forms have in common whose programs are the same, about."""

    algorithm: str
    rates: bool
    operators: tuple[str, ...]


class TimesTaken:
    """What was taken so far.

    Args:
        anew: versions learn all rows anew.
    """

    def __init__(self, anew: bool) -> None:
        self._anew = anew
        self._known: dict[FormKind, Took] = {}
        self._compiled: set[StatementForm] = set()
        self._slower = 1.0

    def add(self, form: StatementForm, rows: float, seconds: float, compile_seconds: float) -> None:
        """Take in a training that learned alone."""
        kind = kind_of(form)
        if not self._known:  # by what else the machine does
            self._slower = max((seconds - compile_seconds) / (BEGIN_SECONDS + form.cost * rows / ROWS_PER_SECOND), 1.0)
        before = self._known[kind].compile_seconds if kind in self._known else 0.0
        self._known[kind] = Took(max(compile_seconds, before), seconds - compile_seconds, rows * form.cost)
        self._compiled.add(form)

    def of(self, form: StatementForm, rows: float) -> float:
        """Return what a training on some rows takes."""
        kind = kind_of(form)
        if kind not in self._known:
            return first_seconds(form, rows, self._slower)
        compiled, seconds, work = self._known[kind]
        learns = BEGIN_SECONDS + max(seconds - BEGIN_SECONDS, 0.0) * form.cost * rows / work
        return learns + (0.0 if form in self._compiled else compiled)

    def of_version(self, form: StatementForm, rows: float) -> float:
        """Return what the version takes, a margin included: it learns the rows held out, too, once they have judged.

        All rows are learned anew where a later pass may be the best, or all are learned at once.
        """
        takes = self.of(form, rows)
        beside = 1.6 if self._anew or form.settings or form.algorithm in AT_ONCE else 0.6
        return MARGIN * (takes + beside * max(takes - self._compiling(form), 0.0)) + END_SECONDS

    def _compiling(self, form: StatementForm) -> float:
        kind = kind_of(form)
        if form in self._compiled:
            return 0.0
        return self._known[kind].compile_seconds if kind in self._known else self._slower * compile_seconds(form)


def kind_of(form: StatementForm) -> FormKind:
    return FormKind(form.algorithm, form.rates, form.operators)


def compile_seconds(form: StatementForm) -> float:
    """Return what it takes to compile an algorithm's programs for the first time."""
    return COMPILE_SECONDS.get(form.algorithm, NETWORK_SECONDS) + RATES_SECONDS * form.rates


def first_seconds(form: StatementForm, rows: float, slower: float = 1.0) -> float:
    """Return what the first training of an algorithm takes.

    Args:
        slower: how many times longer trials take here.
    """
    return slower * (BEGIN_SECONDS + compile_seconds(form) + form.cost * rows / ROWS_PER_SECOND)
