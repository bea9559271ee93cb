"""USING auto: from a statement without an algorithm to the version of the best statement that was found."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import pyarrow as pa

from ....warehouse.durable import clear
from ....warehouse.scratch import scratch
from ...engines.base import Staged
from ...quoting import quoted
from ..clauses.budget import Budget
from ..clauses.column_roles import TIME
from ..clauses.label import LABEL
from ..clauses.settings import ALL
from ..clauses.validate import VALIDATE
from .clock import BudgetClock
from .forms import FormWriter, StatementForm
from .journal import TrialJournal, journal_folder
from .learner import StatementLearner
from .look import FirstLook, looked
from .options import AutoOptions, held_of
from .stages import StagedSearch, refuse_leaks, searched, verdict
from .trials import AutoTrials, sorted_lines

if TYPE_CHECKING:
    from ....warehouse.models import Models
    from ...engines.base import Engine
    from ...progress import Reporter
    from ..plan import Plan

FIRST_ROWS = 1000
BINARY, NUMBERS, CLASSES = "binary", "numbers", "classes"
METRICS = {BINARY: "auc", NUMBERS: "rmse", CLASSES: "logloss"}


class AutoWriter(FormWriter, Protocol):
    """A writer whose statements can say more of the rows."""

    @property
    def transforms(self) -> bool:
        """Whether the statement has a TRANSFORM of its own."""
        ...

    def timed(self, column: str) -> Self:
        """Return the writer of statements with TIME, whose last rows are held out."""
        ...

    def holding(self, share: float) -> Self:
        """Return the writer of statements that hold out a share of the rows where they do not say."""
        ...

    def ordered(self, by: str) -> Self:
        """Return the writer of statements whose rows are in an order."""
        ...


class SearchRequest(NamedTuple):
    """What a statement asks of a search.

    Attributes:
        query: the rows, as the engine reads them.
        passing: the query reads what goes with the statement.
        replaces: the version takes the place of all before it.
        goes_on: with the trials of one that was killed.
        train: trains the statement that was found, given the budget with what came of the trials, and where its rows are.
    """

    statement: str
    model: str
    query: str
    passing: bool
    options: AutoOptions
    budget: Budget
    writer: AutoWriter
    engine: Engine
    models: Models
    reporter: Reporter
    replaces: bool
    goes_on: bool
    train: Callable[[str, Budget, Path | None], pa.Table]


class TrialRows(NamedTuple):
    """Where the rows of all trials are.

    Attributes:
        writer: whose statements say how they are ordered.
        query: reads them.
        staged: the folder where they were written; None: they are read in place.
    """

    writer: AutoWriter
    query: str
    staged: Path | None


def auto(asked: SearchRequest) -> pa.Table:
    """Search for a statement, train it as the model's version, and return what training returns.

    Raises:
        StatementError: the statement cannot be searched for; a column tells the label.
        XpsqlError: as `train`, of the defaults or of what was found.
    """
    with scratch(asked.models.warehouse) as folder:
        with holding(asked.models, asked.model, asked.replaces):
            statement, budget, rows, journal = found(asked, folder)
        made = asked.train(statement, budget, rows)
        journal.close()
        return made


def found(asked: SearchRequest, folder: Path) -> tuple[str, Budget, Path | None, TrialJournal]:
    """Return the statement that wins, the budget with what came of the trials, the folder of staged rows, and the journal."""
    journal = TrialJournal(journal_folder(asked.models, asked.model), asked.statement, asked.goes_on)
    clock = BudgetClock(asked.budget, journal.seconds)
    with temporary(folder / "look") as empty:
        rows, seen, base = looked_at(asked, folder, empty)
        kind = kind_of(asked.engine, rows, base)
        metric = asked.options.metric or METRICS[kind]
        note = asked.reporter.note
        learner = StatementLearner(rows.writer, rows.query, asked.engine, journal.folder)
        plan = rows.writer.plan(base, rows.query)
        trials = AutoTrials(learner, metric, asked.options.simple, clock, journal, note, plan.settings.held_out == ALL)
        search = StagedSearch(
            trials, seen, asked.options, kind == NUMBERS, asked.writer.transforms, plan.settings, recurs(plan), note
        )
        searched(search, base)
        note(verdict(search))
        budget = replace(asked.budget, statement=asked.statement, found=sorted_lines(trials.found, trials.best))
        return rows.writer.write(trials.form), budget, rows.staged, journal


def looked_at(asked: SearchRequest, folder: Path, empty: Path) -> tuple[TrialRows, FirstLook, StatementForm]:
    """Look at the rows, write them anew where they have another order than trials need, and say what would mislead."""
    note = asked.reporter.note
    rows = holding_out(asked.engine, staged(asked.engine, timed(asked, note), folder / "rows", asked.passing))
    base = (
        StatementForm("xftrl")
        if kind_of(asked.engine, rows, StatementForm("xftrl")) != NUMBERS
        else StatementForm("linear_regression")
    )
    seen = looked(rows.writer.plan(base, rows.query), asked.engine, empty, note)
    if (order := order_for(seen)) is not None:
        by, why = order
        note(why)
        ordered = TrialRows(rows.writer.ordered(by), f"SELECT * FROM ({rows.query}) ORDER BY {by}", None)
        rows = staged(asked.engine, ordered, folder / "ordered", passing=True)
        seen = looked(rows.writer.plan(base, rows.query), asked.engine, empty, note)
    for text in seen.notes:
        note(text)
    return rows, seen, base._replace(ignore=refuse_leaks(seen, asked.options, note))


def timed(asked: SearchRequest, note: Callable[[str], None]) -> TrialRows:
    """Return the rows with the query's only timestamp as TIME where the statement names none."""
    rows = TrialRows(asked.writer, asked.query, None)
    schema = asked.engine.schema(asked.query)
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    if len(times) != 1 or asked.writer.plan(StatementForm("xftrl"), asked.query).clause(TIME) is not None:
        return rows
    note(f"{times[0]} is a timestamp: TIME {times[0]}, and the last rows are held out.")
    return rows._replace(writer=asked.writer.timed(times[0]))


def staged(engine: Engine, rows: TrialRows, folder: Path, passing: bool) -> TrialRows:
    """Return rows that can be read in place: where they cannot, they are written once for all trials."""
    if not passing and not isinstance(engine.scan(rows.query), Staged):
        return rows
    engine.stage(rows.query, folder)
    return rows._replace(query=f"SELECT * FROM parquet.{quoted(str(folder.absolute()))}", staged=folder)


def holding_out(engine: Engine, rows: TrialRows) -> TrialRows:
    """Return rows whose statements hold out as many as it takes to judge."""
    counted = engine.execute(f"SELECT count(*) AS rows FROM ({rows.query})")
    assert counted is not None  # a query answers
    return rows._replace(writer=rows.writer.holding(held_of(counted.column("rows")[0].as_py())))


def recurs(plan: Plan) -> bool:
    """Return whether rows held out are not the last, so that they come from the same users and items as those learned."""
    validate = plan.clause(VALIDATE)
    return plan.clause(TIME) is None and validate is not None and not validate.last


def order_for(seen: FirstLook) -> tuple[str, str] | None:
    """Return the order that rows need to be learned in, and why; None where theirs will do.

    Labels in runs are mixed by a hash of the columns with one value a row, the same each time.
    """
    columns = seen.prepared.columns
    if seen.unordered and columns.time is not None:
        by = quoted(columns.time)
        return by, f"Rows are not in order of {columns.time}, so the statement orders them by {by}."
    if not seen.sorted or columns.time is not None:
        return None
    names = dict.fromkeys(slot.column for slot in (*columns.scalar, *columns.continuous))
    by = f"xxhash64({', '.join(map(quoted, names))})"
    return by, f"Labels come in runs, so the statement orders them by {by}."


def kind_of(engine: Engine, rows: TrialRows, form: StatementForm) -> str:
    """Return what the labels are, by the first rows."""
    plan: Plan = rows.writer.plan(form, rows.query)
    (label,) = plan.clause(LABEL).columns
    if label.lower() not in (name.lower() for name in engine.schema(plan.query).names):
        return BINARY  # the look says what is there
    found = engine.execute(f"SELECT {quoted(label)} AS label FROM ({rows.query}) LIMIT {FIRST_ROWS}")
    assert found is not None  # a query answers
    column = found.column("label")
    if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type) or plan.settings.task == "multiclass":
        return CLASSES
    return BINARY if {*column.drop_null().to_pylist()} <= {0, 1} else NUMBERS


@contextlib.contextmanager
def holding(models: Models, model: str, replaces: bool) -> Iterator[None]:
    """Keep others from changing a model until the block ends."""
    lock = models.lock(model, None, replaces)
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def temporary(folder: Path) -> Iterator[Path]:
    """Yield a folder for what a look prepares."""
    folder.mkdir()
    try:
        yield folder
    finally:
        clear(folder)
