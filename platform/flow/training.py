"""A training from statement to version: checks, input, workers, commit."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pyarrow as pa

from ...warehouse import manifest as entries
from ...warehouse.manifest import Manifest
from ..engines.base import Engine
from ..engines.tasks import Tasks
from .compiled import prepare_jax
from .distributed import learn_on
from .local import learn_here
from .metrics import Metrics
from .monitor import Monitor
from .places import places_of
from .plan import Plan
from .prepared import Prepared, check_memory, prepare
from .recipe import Recipe, fitted
from .scaling import as_entry
from .slots import CONTINUOUS, Columns
from .state import check_continues, dense_entries, table_entries

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ...warehouse.models import Models, Version
    from ..progress import Reporter


def train(plan: Plan, engine: Engine, models: Models, reporter: Reporter) -> pa.Table:
    """Run a training statement and commit its version.

    Returns:
        One row: model, version, status, examples, rows, auc, logloss, pcopc, seconds.

    Raises:
        StatementError: the statement cannot run; nothing has started.
        DataError, TrainingError, ModelError: it failed on the way; the version says so, and the version served stays.
    """
    prepare_jax()
    parent = models.version(plan.model, plan.parent) if plan.parent is not None else None
    recipe, columns = fitted(plan, engine.schema(plan.query), parent.manifest if parent else None)
    if parent is not None:
        check_continues(recipe, parent)
    places = places_of(plan.settings, engine.tasks)
    scan = engine.scan(plan.query)
    with models.begin(plan.model, manifest_of(plan, columns, recipe), plan.replace) as draft:
        try:
            prepared = prepare(plan, columns, scan or engine.stage(plan.query, draft.staged), parent, places)
            if engine.tasks is not None:
                check_memory(engine.tasks, prepared)
        except BaseException:
            draft.discard()
            raise
        return run(prepared, engine.tasks, draft, reporter)


def run(prepared: Prepared, tasks: Tasks | None, draft: Draft, reporter: Reporter) -> pa.Table:
    """Learn from the input and commit."""
    plan, recipe, columns = prepared.plan, prepared.recipe, prepared.columns
    monitor = Monitor(Metrics(recipe.algorithm.classifier), draft, reporter)
    reporter.start(f"{plan.model} v{draft.number}", prepared.num_examples)
    ended = ""
    try:
        held = learn_here(prepared, draft, monitor) if tasks is None else learn_on(tasks, prepared, draft, monitor)
        monitor.write(held.described, held.saved.weights)
        ended = f"{plan.model} v{draft.number}: {monitor.metrics.examples:,} examples learned"
    finally:
        reporter.finish(ended)
    metrics = monitor.metrics
    draft.commit(
        dataclasses.replace(
            draft.manifest,
            slots=slot_entries(columns),
            dense=dense_entries(recipe),
            splits=tuple(entries.Split(s.path, s.size, s.modified, s.row_group, 0, s.rows) for s in prepared.splits),
            examples=metrics.examples,
            rows=held.saved.rows,
            metrics=metrics.as_dict(),
            base_rate=base_rate(metrics, prepared.parent),
            statistics={
                "scaler": as_entry(held.described.moments),
                "scaled": [s.name for s in columns.of_kind(CONTINUOUS)],
                "now": held.described.now,
            },
        )
    )
    return summary(draft)


def base_rate(metrics: Metrics, parent: Version | None) -> float:
    """Return the mean label of all examples so far, the parent's included."""
    before, rate = (parent.manifest.examples_total, parent.manifest.base_rate or 0.0) if parent else (0, 0.0)
    return (before * rate + metrics.examples * metrics.label_rate) / (before + metrics.examples)


def manifest_of(plan: Plan, columns: Columns, recipe: Recipe) -> Manifest:
    """Return what is known of a version before its training."""
    return Manifest(
        statement=plan.statement,
        query=plan.query,
        algorithm=entries.Part(plan.algorithm.name, dict(plan.algorithm.given)),
        operators=tuple(entries.Part(use.name, dict(use.given)) for use in plan.operators),
        slots=slot_entries(columns),
        labels=columns.labels,
        weight=columns.weight,
        time=columns.time,
        group=columns.group,
        ignore=columns.ignore,
        settings=dataclasses.asdict(plan.settings),
        tables=table_entries(recipe),
        seed=plan.settings.seed,
        parent=plan.parent,
    )


def slot_entries(columns: Columns) -> tuple[entries.Slot, ...]:
    """Describe the slots as the manifest does."""
    return tuple(
        entries.Slot(s.name, s.kind, s.type, s.number, None if s.source == s.name else s.source, s.hashed, s.dim)
        for s in columns.all_slots
    )


def summary(draft: Draft) -> pa.Table:
    """Return the row that a training statement answers with."""
    done = draft.manifest
    row = {"model": done.model, "version": done.version, "status": done.status, "examples": done.examples, "rows": done.rows}
    row |= {name: done.metrics.get(name) for name in ("auc", "logloss", "pcopc")}
    return pa.Table.from_pylist([{**row, "seconds": done.seconds}])
