"""How USING auto trains a statement beside the model: in a warehouse of its own, until a deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ....warehouse.durable import clear
from ....warehouse.models import Models
from ....warehouse.trainings.progress import read_progress
from ...errors import StatementError
from ...progress import SilentReporter
from ..clauses.label import LABEL
from ..clauses.release import RELEASE
from ..clauses.settings import NONE
from ..estimates import row_bytes
from ..recipe import fitted
from ..start import train
from ..trial import Trial
from ..tuning.paired import JudgedRows
from ..tuning.side_by_side import can_learn_together, together
from ..tuning.space import Candidate

if TYPE_CHECKING:
    from ...engines.base import Engine
    from ..plan import Plan
    from .forms import FormWriter, StatementForm


class LearnedTrial(NamedTuple):
    """What a trial learned.

    Attributes:
        features: how many it has rows for.
        compile_seconds: what it took to compile programs, which the next training of the same statement finds compiled.
    """

    examples: int
    features: int
    compile_seconds: float = 0.0


class OverBudgetError(Exception):
    """A training that was stopped, as a search has no time left for it."""


class TrialLearner(Protocol):
    """Trains forms."""

    def statement(self, form: StatementForm) -> str:
        """Return the text of a form's statement."""
        ...

    def learn(self, form: StatementForm, share: float | None, judged: Path, late: Callable[[], bool]) -> LearnedTrial:
        """Train a form, and write what it predicts of the rows held out.

        Args:
            share: of the rows, the first ones.
            late: whether it must stop.

        Raises:
            OverBudgetError: it was late.
            StatementError, TrainingError, DataError: it cannot be trained.
        """
        ...

    def learns_together(self, forms: Sequence[StatementForm]) -> bool:
        """Return whether forms that differ in options alone can learn side by side."""
        ...

    def learn_together(self, forms: Sequence[StatementForm], judged: Sequence[Path], late: Callable[[], bool]) -> LearnedTrial:
        """Train forms side by side; see `learn`."""
        ...

    def size(self, form: StatementForm, features: int) -> int:
        """Return about what so many rows of a form take, in bytes."""
        ...


class StoppingReporter(SilentReporter):
    """Stops a training that is late, where it reports how far it is.

    Args:
        late: whether it is.
    """

    def __init__(self, late: Callable[[], bool]) -> None:
        self._late = late

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        if self._late():
            raise OverBudgetError


class StatementLearner:
    """Trains forms on an engine; see TrialLearner.

    Args:
        writer: writes forms as statements.
        query: of the rows that all read.
        folder: for its files.
    """

    def __init__(self, writer: FormWriter, query: str, engine: Engine, folder: Path) -> None:
        self._writer, self._query, self._engine, self._folder = writer, query, engine, folder

    def statement(self, form: StatementForm) -> str:
        return self._writer.write(form)

    def learn(self, form: StatementForm, share: float | None, judged: Path, late: Callable[[], bool]) -> LearnedTrial:
        return self._learn(self._plan(form), share, judged, late)

    def learns_together(self, forms: Sequence[StatementForm]) -> bool:
        first = self._plan(forms[0])
        return can_learn_together(first, self._candidates(forms), self._engine.schema(first.query))

    def learn_together(self, forms: Sequence[StatementForm], judged: Sequence[Path], late: Callable[[], bool]) -> LearnedTrial:
        first, every = self._plan(forms[0]), self._folder / "together.npz"
        label = first.clause(LABEL).columns[0]
        labels = [label, *(f"trial {n} of {label}" for n in range(1, len(forms)))]
        options = [one.algorithm.options for one in self._candidates(forms)]
        learned = self._learn(together(first, first.algorithm, options, labels), None, every, late)
        for place, path in enumerate(judged):
            JudgedRows.of(every, place, alone=False).write(path)
        return learned

    def size(self, form: StatementForm, features: int) -> int:
        try:
            plan = self._plan(form)
            recipe, _ = fitted(plan, self._engine.schema(plan.query), None)
        except StatementError:
            return 0  # training it will say why
        return features * sum(row_bytes(one) for one in recipe.programs)

    def _plan(self, form: StatementForm) -> Plan:
        return self._writer.plan(form, self._query)

    def _candidates(self, forms: Sequence[StatementForm]) -> list[Candidate]:
        return [Candidate(dict(form.options), self._plan(form).algorithm, "", False, ()) for form in forms]

    def _learn(self, plan: Plan, share: float | None, judged: Path, late: Callable[[], bool]) -> LearnedTrial:
        folder = self._folder / "warehouse"
        clear(folder)
        clear(judged)
        settings = replace(plan.settings, held_out=NONE)  # the version alone learns rows that were held out
        plan = replace(plan, model="trial", replace=False, settings=settings).having(RELEASE, None)
        models = Models(folder)
        try:
            # what tasks of an engine report comes by messages, which cannot stop them
            reporter = StoppingReporter(late) if self._engine.tasks is None else SilentReporter()
            train(plan, self._engine, models, reporter, Trial(share, judging=judged))
            version = models.version("trial")
            lines = [line["compile_seconds"] for line in read_progress(version.folder) if line.get("compile_seconds")]
            learned = version.manifest.learned
            return LearnedTrial(learned.examples, int(learned.rows or 0), max(lines, default=0.0))
        finally:
            clear(folder)
