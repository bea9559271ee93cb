"""A training from statement to version: checks, input, workers, commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...warehouse import manifest as entries
from ...warehouse.manifest import Manifest
from ...warehouse.stored import SumsEntry
from ...warehouse.trainings.segments import append_segment
from ...warehouse.version import Version
from ..engines.base import Engine, Scan, Staged, staged
from ..engines.parquet_scan import staged_scan
from ..engines.tasks import Tasks
from ..errors import NumberError, TrainingError
from ..input.columns import Columns
from ..input.side.versions import vectors_entries, with_vectors
from .compiled import compilations, prepare_jax
from .conclusion import by_hand, conclude, slot_entries, summary
from .hold_out import check_validation
from .metrics.windows import without_windows
from .monitor import Monitor, ProgressLines
from .online.planting import with_tree
from .parallelism import places_of
from .plan import Plan
from .prepared import Prepared, check_encryption, check_memory, prepare, with_classes
from .recipe import Recipe, fitted, idle, planned, sums_of_scores
from .record import prepare_again, recorded
from .row_files.rows import check_continues, table_entries
from .segment import Segment
from .strategies import strategy_of
from .taking import check_drawn, taken, taking_of, with_items

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
) -> pa.Table:
    """Run a training statement and commit its version.

    Args:
        found: how the plan's query is read.
        segment: what is taken of the stream that it reads; None where it reads none.
        under: the model's lock, which the caller has; None: it is taken.
        lines: returns what takes the lines of progress of a version.

    Returns:
        One row: model, version, status, examples, rows, auc, logloss, pcopc, seconds.

    Raises:
        StatementError: the statement cannot run; nothing has started.
        PausedError: it has learned as much as the plan says, and pauses.
        DataError, TrainingError, ModelError: it failed on the way; the version says so, and the version served stays.
    """
    prepare_jax()
    parent = models.version(plan.model, plan.parent) if plan.parent is not None else None
    taking = taking_of(plan, engine)
    schema = found.schema if taking is None else taking.schema(found.schema)
    recipe, columns = fitted(plan, schema, parent.manifest if parent else None)
    check_drawn(taking, recipe.algorithm, columns)
    if parent is not None:
        check_continues(recipe, parent)
    check_validation(plan, recipe.algorithm)
    strategy_of(recipe.algorithm).check(plan, recipe, columns, parent, engine.tasks)
    places = places_of(plan.settings, engine.tasks, recipe.algorithm.serves)
    if engine.tasks is not None:
        check_encryption(plan)
    if plan.passing and not isinstance(found, Staged):
        found = Staged(found.schema, "the results of its calls go with the statement")
    with models.begin(plan.model, manifest_of(plan, columns, recipe, parent), plan.replace, under) as draft:
        try:
            segment = None if segment is None else segment.beside(draft.folder)
            text = plan.query if plan.stream is None else plan.stream.query
            if plan.rows is not None:
                scan = moved(plan.rows, draft.staged, found.schema)
            else:
                scan = staged(engine, text, found if segment is None else segment.scan, draft.staged)
            columns = with_classes(plan, columns, scan, engine, draft.staged)
            taking = None if taking is None else with_items(taking, plan, engine, draft.items)
            scan = scan if taking is None else taken(taking, plan, scan, reporter.note)
            columns = with_vectors(plan.vectors, columns, engine, parent, draft.vectors_of)
            prepared = prepare(plan, columns, scan, parent, places, engine, draft.apart, segment, taking)
            if engine.tasks is not None:
                check_memory(engine.tasks, prepared)
            if plan.begins is not None:
                plan.begins.check(prepared.splits)
            draft.checkpoints.names()  # a place that cannot be read is an error now
        except BaseException:
            draft.discard()
            raise
        if segment is not None:
            append_segment(draft.folder, segment.splits)
        draft.record(recorded(draft.manifest, prepared))
        for line in () if plan.begins is None else plan.begins.progress(plan.labels):
            draft.progress(line)
        return run(prepared, engine.tasks, draft, reporter, models, lines(draft))


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
            prepared = prepare_again(plan, draft, engine, parent)
            recipe, columns = prepared.recipe, prepared.columns
            strategy_of(recipe.algorithm).check(plan, recipe, columns, parent, engine.tasks)
            if engine.tasks is not None:
                check_encryption(plan)
                check_memory(engine.tasks, prepared)
        except BaseException:
            draft.discard()
            raise
        return run(prepared, engine.tasks, draft, reporter, models, lines(draft))


def run(
    prepared: Prepared, tasks: Tasks | None, draft: Draft, reporter: Reporter, models: Models, lines: ProgressLines
) -> pa.Table:
    """Learn from the input and commit; the condition of release compares with the version served when it is judged.

    Raises:
        TrainingError: the version is held, its condition of release is false.
    """
    prepared = with_tree(prepared, draft)
    plan, recipe = prepared.plan, prepared.recipe
    evaluated, patience = plan.evaluate is not None, plan.settings.patience
    monitor = Monitor(prepared.targets, lines, reporter, evaluated, patience, prepared.rebuilds > 0)
    if (schedule := prepared.schedule) is not None and not schedule.windows:
        monitor.note(without_windows(schedule))
    reporter.start(f"{plan.model} v{draft.number}", prepared.num_examples)
    ended = ""
    try:
        with compilations(monitor.compiled.add):
            held = strategy_of(recipe.algorithm).learn(prepared, tasks, draft, monitor)
        monitor.write(held.described, held.saved.weights)
        ended = f"{plan.model} v{draft.number}: {monitor.passes.examples:,} examples learned"
    except NumberError as error:
        if any(use.name == "safety" for use in plan.operators):
            raise
        raise NumberError(f"{error} OPERATORS (safety) refuses such updates.") from error
    finally:
        reporter.finish(ended)
    failing = conclude(prepared, draft, held, monitor, models)
    if failing is not None:
        raise TrainingError(f"{failing} Train again, or {by_hand(plan.model, draft.number)}.")
    return summary(draft.manifest)


def moved(rows: Path, folder: Path, schema: pa.Schema) -> Scan:
    """Return how to read the rows of a query that ran before, which become those of a version."""
    rows.rename(folder)
    return staged_scan(tuple(str(file) for file in sorted(folder.absolute().glob("*.parquet"))), schema)


def manifest_of(plan: Plan, columns: Columns, recipe: Recipe, parent: Version | None) -> Manifest:
    """Return what is known of a version before its training."""
    before, name = parent.manifest.once if parent is not None else (), plan.settings.once
    return Manifest(
        statement=plan.statement,
        query=plan.query,
        algorithm=entries.PartEntry(plan.algorithm.name, effective(plan, recipe)),
        operators=tuple(entries.PartEntry(use.name, dict(use.given), use.on) for use in plan.operators),
        slots=slot_entries(columns),
        labels=columns.labels,
        late=plan.late,
        weight=columns.weight,
        time=columns.time,
        group=columns.group,
        ignore=columns.ignore,
        crosses=tuple(term.text for term in plan.crosses),
        vectors=vectors_entries(plan.vectors, columns, parent),
        items=plan.items,
        positive=plan.positive,
        transform=plan.transform.entry if plan.transform is not None else None,
        settings=dataclasses.asdict(plan.settings),
        sums=sums_entry(plan, columns),
        evaluate=plan.evaluate._asdict() if plan.evaluate is not None else None,
        validate=plan.validate._asdict() if plan.validate is not None else None,
        trials=plan.trials,
        release=plan.release.text if plan.release is not None else None,
        tables=table_entries(recipe),
        seed=plan.settings.seed,
        parent=plan.parent,
        publish=plan.publish._asdict() if plan.publish is not None else None,
        retain=plan.retain,
        defaults=entries.DEFAULTS,
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
