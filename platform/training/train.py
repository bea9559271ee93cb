"""A training from statement to version: checks, input, workers, commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...warehouse import entries
from ...warehouse.checksums import SumsEntry
from ...warehouse.manifest import Manifest
from ...warehouse.trainings.segments import append_segment
from ...warehouse.version import Version
from ..engines.base import Engine, Scan, Staged
from ..engines.tasks import Tasks
from ..errors import NumberError, TrainingError
from ..input.columns import Columns
from ..input.side.versions import vectors_entries
from . import held_rows
from .clauses.evaluate import EVALUATE
from .clauses.label import LABEL
from .clauses.settings import NONE
from .clauses.vectors import VECTORS
from .commit import by_hand, conclude, held_back, judge, slot_entries, summary
from .compiled import compilations, prepare_jax
from .metrics.observed import Observed
from .metrics.windows import without_windows
from .monitor import Monitor, ProgressLines
from .online.planting import with_tree
from .plan import Plan
from .planning.targets import in_time
from .preparation.base import Mode, Preparation
from .preparation.memory import check_memory
from .preparation.stages import checked, prepared
from .prepared import Prepared
from .provenance.environment import environment
from .provenance.sources import sources_of, staged_source
from .recipe import Recipe, idle, planned, sums_of_scores
from .record import clauses_entry, prepared_again, recorded, roles_entry
from .row_files.rows import table_entries
from .row_files.saved import SavedShards
from .segment import Segment
from .strategies import strategy_of
from .trial import NO_TRIAL, Trial

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ...warehouse.locks import Lock
    from ...warehouse.models import Models
    from ..progress import Reporter


def train(
    plan: Plan,
    found: Scan | Staged,
    engine: Engine,
    models: Models,
    reporter: Reporter,
    segment: Segment | None,
    under: Lock | None = None,
    lines: Callable[[Draft], ProgressLines] = lambda draft: draft,
    trial: Trial = NO_TRIAL,
) -> pa.Table:
    """Run a training statement and commit its version.

    Args:
        found: how the plan's query is read.
        segment: what is taken of the stream that it reads; None where it reads none.
        under: the model's lock, which the caller has; None: it is taken.
        lines: returns what takes the lines of progress of a version.
        trial: what TUNE asks of it.

    Returns:
        One row: model, version, status, examples, rows, auc, logloss, pcopc, seconds.

    Raises:
        StatementError: the statement cannot run; nothing has started.
        PausedError: it has learned as much as the plan says, and pauses.
        DataError, TrainingError, ModelError: it failed on the way; the version says so, and the version served stays.
    """
    prepare_jax()
    parent = models.version(plan.model, plan.parent) if plan.parent is not None else None
    given = checked(Preparation(Mode.LEARN, plan, engine, engine.tasks, parent, found, segment, reporter.note, trial=trial))
    with models.begin(plan.model, manifest_of(plan, given.columns, given.recipe, parent), plan.replace, under) as draft:
        try:
            for history in plan.histories:
                history.pin(draft.folder)
            if segment is not None:
                segment = segment.beside(draft.folder)
                given = given.having(segment=segment, found=segment.scan)
            made = in_time(prepared(given, draft), engine.tasks, reporter.note)
            if engine.tasks is not None:
                check_memory(engine.tasks, made)
            if trial.begins is not None:
                trial.begins.check(made.splits)
            draft.checkpoints.names()  # a place that cannot be read is an error now
        except BaseException:
            draft.discard()
            raise
        if segment is not None:
            append_segment(draft.folder, segment.splits)
        sources = sources_of(plan, engine)
        if engine.tasks is None and draft.staged.is_dir():  # elsewhere the driver would have to read them
            sources = (*sources, staged_source(draft.staged))
        draft.record(dataclasses.replace(recorded(draft.manifest, made), sources=sources))
        for line in () if trial.begins is None else trial.begins.progress(plan.clause(LABEL).columns):
            draft.progress(line)
        return run(made, engine.tasks, draft, reporter, models, lines(draft))


def resume(
    plan: Plan,
    engine: Engine,
    models: Models,
    reporter: Reporter,
    under: Lock | None = None,
    lines: Callable[[Draft], ProgressLines] = lambda draft: draft,
) -> pa.Table:
    """Go on with the newest training of a model that was interrupted, from its last good checkpoint, and commit its version.

    Args:
        plan: of that training, as its manifest has it.
        under, lines: as of train.

    Returns:
        As `train`.

    Raises:
        StatementError, DataError, ModelError: it cannot go on as it is; it stays interrupted.
        TrainingError, XpsqlError: as `train`.
    """
    prepare_jax()
    with models.resume(plan.model, under) as draft:
        try:
            parent = models.version(plan.model, plan.parent) if plan.parent is not None else None
            made = prepared_again(plan, draft, engine, engine.tasks, parent, reporter.note)
            if engine.tasks is not None:
                check_memory(engine.tasks, made)
        except BaseException:
            draft.discard()
            raise
        return run(made, engine.tasks, draft, reporter, models, lines(draft))


def run(
    training: Prepared, tasks: Tasks | None, draft: Draft, reporter: Reporter, models: Models, lines: ProgressLines
) -> pa.Table:
    """Learn from the input and commit; the condition of release compares with the version served when it is judged.

    Raises:
        TrainingError: the version is held, its condition of release is false.
    """
    training = with_tree(training, draft)
    plan, recipe = training.plan, training.recipe
    evaluated, patience = plan.clause(EVALUATE) is not None, plan.settings.patience
    monitor = Monitor(training.targets, lines, reporter, evaluated, patience, training.rebuilds > 0 or training.chooses)
    monitor.validations.by, monitor.validations.drops = plan.settings.patience_by, training.drops
    monitor.observed = Observed(training.asked)
    if (schedule := training.schedule) is not None and not schedule.windows:
        monitor.note(without_windows(schedule))
    if idle := training.idle_operators:
        monitor.note(f"OPERATORS ({', '.join(idle)}) act from the second pass on, and this training has one pass.")
    reporter.start(f"{plan.model} v{draft.number}", training.num_examples)
    ended, rest, strategy = "", None, strategy_of(recipe.algorithm)

    def learn(given: Prepared, followed: Monitor) -> SavedShards:
        with compilations(followed.compiled.add):
            return strategy.learn(given, tasks, draft, followed)

    try:
        before = held_rows.resumed(draft, monitor)
        held = learn(training, monitor) if before is None else before
        how = held_rows.chosen(training, monitor.validations)
        more = how != NONE
        failing = judge(training, held, monitor, models) if before is None and more else None
        if failing is None and more:
            if before is None:
                held_rows.keep(draft, held, monitor)
            held, rest = held_rows.learn_rest(training, how, draft, monitor, reporter, learn)
        monitor.write(held.described, held.saved.weights)
        ended = f"{plan.model} v{draft.number}: {monitor.passes.examples:,} examples learned"
    except NumberError as error:
        if any(use.name == "safety" for use in plan.operators):
            raise
        raise NumberError(f"{error} OPERATORS (safety) refuses such updates.") from error
    finally:
        reporter.finish(ended)
    if not more:
        failing = judge(training, held, monitor, models)
    conclude(training, draft, held, monitor, models, rest, failing)
    if failing is not None:
        why = held_back(plan.model, draft.number, failing)
        raise TrainingError(f"{why} Train again, or {by_hand(plan.model, draft.number)}.")
    return summary(draft.manifest)


def manifest_of(plan: Plan, columns: Columns, recipe: Recipe, parent: Version | None) -> Manifest:
    """Return what is known of a version before its training."""
    before, name = parent.manifest.once if parent is not None else (), plan.settings.once
    return Manifest(
        statement=plan.statement,
        query=plan.query,
        algorithm=entries.PartEntry(plan.algorithm.name, effective(plan, recipe)),
        operators=tuple(entries.PartEntry(use.name, dict(use.given), use.on) for use in plan.operators),
        slots=slot_entries(columns),
        roles=roles_entry(columns),
        clauses=clauses_entry(plan),
        vectors=vectors_entries(plan.clause(VECTORS), columns, parent),
        settings=dataclasses.asdict(plan.settings),
        sums=sums_entry(plan, columns),
        tables=table_entries(recipe),
        parent=plan.parent,
        environment=environment(),
        once=before if name is None else (*(other for other in before if other != name), name),
    )


def sums_entry(plan: Plan, columns: Columns) -> SumsEntry | None:
    """Return the sums that the scores of a version are; None where they are more than that."""
    sums = sums_of_scores(planned(plan, columns.layout), columns)
    return None if sums is None else SumsEntry(**sums._asdict())


def effective(plan: Plan, recipe: Recipe) -> dict[str, Any]:
    """Return the options of the algorithm that have an effect."""
    without = idle(plan, recipe)
    return {name: value for name, value in plan.algorithm.given.items() if name.lower() not in without}
