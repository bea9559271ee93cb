"""A training from statement to version: checks, input, workers, commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...warehouse import manifest as entries
from ...warehouse.manifest import Manifest
from ...warehouse.segments import append_segment
from ...warehouse.version import Version
from ..display import plural
from ..engines.base import Engine, Scan, Staged, staged
from ..engines.tasks import Tasks
from ..errors import TrainingError
from ..input.columns import Columns
from ..input.scaling import as_entry
from ..input.streams.skipped import SKIPPED, num_skipped
from .compiled import compilations, prepare_jax
from .held import Held
from .hold_out import check_validation
from .metrics.gate import judged
from .metrics.labels import flat
from .metrics.metrics import Metrics
from .metrics.remarks import remarks, seen_in
from .metrics.windows import without_windows
from .monitor import Monitor
from .parallelism import places_of
from .plan import Plan
from .prepared import Prepared, check_encryption, check_memory, prepare, with_classes
from .recipe import Recipe, fitted, idle
from .record import prepare_again, recorded
from .rows import check_continues, dense_entries, table_entries
from .segment import Segment
from .strategies import strategy_of

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ...warehouse.models import Models
    from ..progress import Reporter

CALIBRATION_PARTS = 20
ENOUGH_EXAMPLES = 10_000
MUCH_WORSE = 1.2


def train(
    plan: Plan, found: Scan | Staged, engine: Engine, models: Models, reporter: Reporter, segment: Segment | None
) -> pa.Table:
    """Run a training statement and commit its version.

    Args:
        found: how the plan's query is read.
        segment: what is taken of the stream that it reads; None where it reads none.

    Returns:
        One row: model, version, status, examples, rows, auc, logloss, pcopc, seconds.

    Raises:
        StatementError: the statement cannot run; nothing has started.
        DataError, TrainingError, ModelError: it failed on the way; the version says so, and the version served stays.
    """
    prepare_jax()
    parent = models.version(plan.model, plan.parent) if plan.parent is not None else None
    recipe, columns = fitted(plan, found.schema, parent.manifest if parent else None)
    if parent is not None:
        check_continues(recipe, parent)
    check_validation(plan, recipe.algorithm)
    strategy_of(recipe.algorithm).check(plan, recipe, columns, parent, engine.tasks)
    places = places_of(plan.settings, engine.tasks, recipe.algorithm.serves)
    if engine.tasks is not None:
        check_encryption(plan)
    if plan.passing and not isinstance(found, Staged):
        found = Staged(found.schema, "the results of its calls go with the statement")
    with models.begin(plan.model, manifest_of(plan, columns, recipe, parent), plan.replace) as draft:
        try:
            segment = None if segment is None else segment.beside(draft.folder)
            scan = segment.scan if segment is not None else staged(engine, plan.query, found, draft.staged)
            columns = with_classes(plan, columns, scan, engine, draft.staged)
            prepared = prepare(plan, columns, scan, parent, places, engine, draft.apart, segment)
            if engine.tasks is not None:
                check_memory(engine.tasks, prepared)
            draft.checkpoints.names()  # a place that cannot be read is an error now
        except BaseException:
            draft.discard()
            raise
        if segment is not None:
            append_segment(draft.folder, segment.splits)
        draft.record(recorded(draft.manifest, prepared))
        return run(prepared, engine.tasks, draft, reporter, models)


def resume(plan: Plan, engine: Engine, models: Models, reporter: Reporter) -> pa.Table:
    """Go on with the newest training of a model that was interrupted, from its last good checkpoint, and commit its version.

    Args:
        plan: of that training, as its manifest has it.

    Returns:
        As `train`.

    Raises:
        StatementError, DataError, ModelError: it cannot go on as it is; it stays interrupted.
        TrainingError, XpsqlError: as `train`.
    """
    prepare_jax()
    with models.resume(plan.model) as draft:
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
        return run(prepared, engine.tasks, draft, reporter, models)


def run(prepared: Prepared, tasks: Tasks | None, draft: Draft, reporter: Reporter, models: Models) -> pa.Table:
    """Learn from the input and commit; the condition of release compares with the version served when it is judged.

    Raises:
        TrainingError: the version is held, its condition of release is false.
    """
    plan, recipe, columns = prepared.plan, prepared.recipe, prepared.columns
    monitor = Monitor(prepared.targets, draft, reporter, plan.evaluate is not None, plan.settings.patience)
    if (schedule := prepared.schedule) is not None and not schedule.windows:
        monitor.note(without_windows(schedule))
    reporter.start(f"{plan.model} v{draft.number}", prepared.num_examples)
    ended = ""
    try:
        with compilations(monitor.compiled.add):
            held = strategy_of(recipe.algorithm).learn(prepared, tasks, draft, monitor)
        monitor.write(held.described, held.saved.weights)
        ended = f"{plan.model} v{draft.number}: {monitor.passes.examples:,} examples learned"
    finally:
        reporter.finish(ended)
    metrics = monitor.metrics.first
    for note in (one_label(prepared, metrics), worse_than_mean(prepared, metrics), passed_over(prepared, draft)):
        if note is not None:
            monitor.note(note)
    evaluation = evaluation_of(monitor, held) if plan.evaluate is not None else {}
    validations, kept = monitor.validations, monitor.validations.kept
    if prepared.parent is None:
        passes = 1 + (monitor.passes.newest if kept is None else kept.pass_number)
        for note in remarks(columns, seen_in(Version(draft.folder, draft.manifest, served=False), passes)):
            monitor.note(note)
    validation = {} if kept is None else flat(validations.by_label(kept))
    failing = None
    if plan.release is not None:
        known = judged(evaluation or evaluation_of(monitor, held), validation, columns.labels)
        failing = plan.release.failing(known, metrics_served(models, plan.model))
    draft.commit(
        dataclasses.replace(
            draft.manifest,
            slots=slot_entries(columns),
            dense=dense_entries(recipe),
            examples=monitor.passes.examples if kept is None else kept.examples,
            rows=held.saved.rows,
            metrics=monitor.metrics.as_dict(),
            evaluation=evaluation,
            validation=validation,
            best_pass=None if kept is None else kept.pass_number,
            calibration=metrics.calibration(CALIBRATION_PARTS),
            base_rate=base_rate(monitor, prepared.parent),
            statistics={
                "scaler": as_entry(held.described.moments),
                "scaled": list(columns.scaled),
                "now": held.described.now,
            },
            position=position_of(prepared),
        ),
        "ready" if failing is None else "held",
    )
    if failing is not None and plan.release is not None:
        raise TrainingError(
            f"Version {draft.number} of model {plan.model} is held, not served: RELEASE WHEN {plan.release.text} is false, "
            f"{failing}. Train again, or promote it by hand with ALTER MODEL {plan.model} PROMOTE VERSION {draft.number}: "
            "later versions go on from it then, until PROMOTE LAST."
        )
    if (why := models.passed_over(plan.model, draft.number)) is not None:
        monitor.note(why)
    return summary(draft)


def one_label(prepared: Prepared, metrics: Metrics) -> str | None:
    """Say that a classifier saw labels of one kind only."""
    labels = prepared.columns.labels if prepared.recipe.algorithm.classifier else ()
    if not labels or not metrics.examples or metrics.label_rate not in (0, 1):
        return None
    return (
        f"LABEL {labels[0]} is {metrics.label_rate:.0f} in all {metrics.examples:,} examples: nothing tells them apart, and "
        "auc is NULL. Look at what the query makes of it, or whether its filter leaves the others out."
    )


def passed_over(prepared: Prepared, draft: Draft) -> str | None:
    """Say how many messages of a topic were no rows."""
    if prepared.segment is None or not (count := num_skipped(draft.folder)):
        return None
    return f"Passed over {count:,} {plural('message', count)}: {draft.folder / SKIPPED} says which, and why."


def worse_than_mean(prepared: Prepared, metrics: Metrics) -> str | None:
    """Say that predictions while learning were worse than one number for all, as those of weights that diverge are; None where
    they were not, or are no probabilities of the label as it is."""
    options = prepared.plan.algorithm.options
    entropy, rate = metrics.as_dict()["normalized_entropy"], metrics.label_rate
    weighted = getattr(options, "positive_weight", 1.0) != 1 or getattr(options, "loss", "") == "focal"
    told = f"the mean label {rate:.4g}" if prepared.recipe.algorithm.classifier else "the share of each class"
    if entropy is None or weighted or metrics.examples < ENOUGH_EXAMPLES or entropy < MUCH_WORSE:
        return None
    names = ", ".join(slot.name for slot in prepared.columns.raw)
    unscaled = f", or divide the numbers of {names}, which are learned as they are, so that most are below 1" if names else ""
    return (
        f"While learning, predictions were worse than {told} for every example would have been: "
        f"normalized_entropy is {entropy:.2f}. Lower the learning rate{unscaled}."
    )


def evaluation_of(monitor: Monitor, held: Held) -> dict[str, float | None]:
    """Return the metrics over all windows, and of the rows at the end."""
    metrics = monitor.evaluation()
    stored = {"rows": held.saved.rows, "violations": held.described.reports.get("violations", 0.0), **held.saved.weights}
    return {**metrics, **stored, "examples_per_second": monitor.examples_per_second}


def metrics_served(models: Models, name: str) -> dict[str, float | None] | None:
    """Return the metrics of the version served, those over its windows where it has any; None where none is served.

    One that SHRINK made has none: they are those of the version that it was made of.
    """
    versions = models.present(name)
    manifests = {version.number: version.manifest for version in versions}
    number = next((version.number for version in versions if version.served), None)
    if number is None:
        return None
    manifest: Manifest | None = manifests[number]
    while manifest is not None and not manifest.metrics:
        manifest = manifests.get(manifest.parent) if manifest.parent is not None else None
    return {} if manifest is None else judged({**manifest.metrics, **manifest.evaluation}, manifest.validation, manifest.labels)


def base_rate(monitor: Monitor, parent: Version | None) -> float:
    """Return the mean label of all examples so far, the parent's included."""
    examples, here = monitor.passes.examples, monitor.metrics.first.label_rate
    before, rate = (parent.manifest.examples_total, parent.manifest.base_rate or 0.0) if parent else (0, 0.0)
    return (before * rate + examples * here) / (before + examples)


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
        weight=columns.weight,
        time=columns.time,
        group=columns.group,
        ignore=columns.ignore,
        crosses=tuple(term.text for term in plan.crosses),
        transform=plan.transform.entry if plan.transform is not None else None,
        settings=dataclasses.asdict(plan.settings),
        evaluate=plan.evaluate._asdict() if plan.evaluate is not None else None,
        validate=plan.validate._asdict() if plan.validate is not None else None,
        release=plan.release.text if plan.release is not None else None,
        tables=table_entries(recipe),
        seed=plan.settings.seed,
        parent=plan.parent,
        once=before if name is None else (*(other for other in before if other != name), name),
    )


def effective(plan: Plan, recipe: Recipe) -> dict[str, Any]:
    """Return the options of the algorithm that have an effect."""
    without = idle(plan, recipe)
    return {name: value for name, value in plan.algorithm.given.items() if name.lower() not in without}


def position_of(prepared: Prepared) -> dict[str, Mapping[str, Any]]:
    """Return how far a version and those that it goes on from have learned from streams."""
    before = prepared.parent.manifest.position if prepared.parent is not None else {}
    segment = prepared.segment
    return dict(before) if segment is None else {**before, segment.stream.name: segment.position}


def slot_entries(columns: Columns) -> tuple[entries.SlotEntry, ...]:
    """Describe the slots as the manifest does."""
    return tuple(
        entries.SlotEntry(
            s.name,
            s.kind,
            s.type,
            s.number,
            None if s.source == s.name else s.source,
            s.hashed,
            s.dim,
            s.role,
            s.group,
            s.length,
            s.field,
            s.members,
        )
        for s in columns.all_slots
    )


def summary(draft: Draft) -> pa.Table:
    """Return the row that a training statement answers with."""
    done = draft.manifest
    row = {"model": done.model, "version": done.version, "status": done.status, "examples": done.examples, "rows": done.rows}
    row |= {name: done.metrics.get(name) for name in ("auc", "logloss", "pcopc")}
    return pa.Table.from_pylist([{**row, "seconds": done.seconds}])
