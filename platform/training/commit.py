"""The end of a training: warnings, the release gate, and the commit of the version."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ...algorithms.delayed_labels import shown
from ...warehouse import entries
from ...warehouse.manifest import Manifest
from ...warehouse.version import Version
from ..display import plural
from ..input.columns import Columns
from ..input.scaling import as_entry
from ..input.streams.skipped import SKIPPED, num_skipped
from .clauses.calibrate import CALIBRATE
from .clauses.evaluate import EVALUATE
from .clauses.label import LABEL
from .clauses.release import RELEASE
from .clauses.settings import ALL, HELD_OUT
from .metrics.fields import of_segments
from .metrics.gate import DRIFT_MAX, GAINS, NULL_SHARE, OF_SLOT, judged
from .metrics.labels import flat, key
from .metrics.metrics import Metrics
from .metrics.remarks import remarks, seen_in
from .metrics.windows import by_value
from .monitor import Monitor
from .observations import drift_before, keep_profile, kept_of, note_of, profiles_made
from .policies.gains import too_few
from .prepared import Prepared
from .provenance.sources import stream_source
from .row_files.rows import dense_entries
from .row_files.saved import SavedShards

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ...warehouse.models import Models

CALIBRATION_PARTS = 100
ENOUGH_EXAMPLES = 10_000
MUCH_WORSE = 1.2


class LearnedRest(NamedTuple):
    """What a version learned of the rows held out.

    Attributes:
        how: as the statement says it.
        examples: of the whole version.
        monitor: of that part.
    """

    how: str
    examples: int
    monitor: Monitor


def judge(prepared: Prepared, held: SavedShards, monitor: Monitor, models: Models) -> str | None:
    """Compare what a training came to with its condition of release, and with the version that is served at that moment.

    Returns:
        Why the release gate holds the version, in words; None where it does not.
    """
    plan = prepared.plan
    evaluate, release = plan.clause(EVALUATE), plan.clause(RELEASE)
    if release is None:
        return None
    evaluation = evaluation_of(prepared, monitor, held)
    known = judged(evaluation, validation_of(monitor), prepared.columns.labels)
    previous = metrics_served(models, plan.model)
    if any(leaf.value in (*OF_SLOT, DRIFT_MAX) for leaf in release.tree.leaves()):
        made = profiles_made(prepared.columns, prepared.parent, monitor.observed)
        known |= {f"{NULL_SHARE}({name.lower()})": one.null_share for name, one in made.items()}
        if previous is not None:
            previous = {**previous, **drift_before(models, plan.model, made, plan.settings.drift_to)}
    failing = release.failing(known, previous)
    if failing and evaluate is not None and not evaluation.get("examples"):
        failing += f"; no window of EVALUATE EVERY {evaluate.every} BATCHES ended in the first pass"
    kept = monitor.validations.kept
    if failing and kept is not None and kept.gain is not None and kept.gain.gain is None:
        failing += f"; {too_few(kept.gain)}"
    return failing and f"RELEASE WHEN {release.text} is false, {failing}."


def conclude(
    prepared: Prepared,
    draft: Draft,
    held: SavedShards,
    monitor: Monitor,
    models: Models,
    rest: LearnedRest | None,
    failing: str | None,
) -> None:
    """Commit a version whose rows are written.

    Args:
        rest: what it learned of rows that were held out, after `monitor` had measured them.
        failing: why the release gate holds it; None where it is ready.
    """
    plan, columns, metrics = prepared.plan, prepared.columns, monitor.metrics.first
    one = one_label(prepared, metrics)
    learned = nothing_learned(prepared, held, metrics) if one is None else None
    for note in (one, learned, worse_than_mean(prepared, metrics), passed_over(prepared, draft), told_of(rest)):
        if note is not None:
            monitor.note(note)
    validations, kept = monitor.validations, monitor.validations.kept
    if prepared.parent is None and prepared.recipe.algorithm.program is None:  # a graph's rows are its vertices or their pairs
        passes = 1 + (monitor.passes.newest if kept is None else kept.pass_number)
        version = Version(draft.folder, draft.manifest, served=False)
        for note in remarks(columns, seen_in(version, passes), prepared.recipe.algorithm):
            monitor.note(note)
    examples = monitor.passes.examples if kept is None else kept.examples
    segment, calibrate = prepared.segment, plan.clause(CALIBRATE)
    calibrators = kept_of(monitors_of(monitor, rest)[0].observed, columns.labels, prepared.parent, draft)
    if calibrate is not None and (less := note_of(calibrators, calibrate.method)) is not None:
        monitor.note(less)
    keep_profile(profiles_made(columns, prepared.parent, monitors_of(monitor, rest)[0].observed), draft)
    sources = (*draft.manifest.sources, *(() if segment is None else (stream_source(segment),)))
    draft.commit(
        dataclasses.replace(
            draft.manifest,
            slots=slot_entries(columns),
            dense=dense_entries(prepared.recipe),
            metrics=metrics_of(monitor),
            calibrators=calibrators,
            evaluation=evaluation_of(prepared, monitor, held) if plan.clause(EVALUATE) is not None else {},
            validation=validation_of(monitor),
            statistics=statistics_of(prepared, held),
            stream=dataclasses.replace(draft.manifest.stream, position=position_of(prepared)),
            sources=sources,
            error=None if failing is None else failing.removesuffix("."),
        ).having_learned(
            examples=examples if rest is None else rest.examples,
            held_out=None if rest is None else rest.how,
            rows=held.saved.rows,
            best_pass=None if kept is None else kept.pass_number,
            rounds=validations.rounds() if prepared.rebuilds or prepared.drops else (),
            calibration=metrics.calibration(CALIBRATION_PARTS),
            base_rate=base_rate(monitors_of(monitor, rest), prepared),
        ),
        "ready" if failing is None else "held",
    )
    if failing is None and (why := models.passed_over(plan.model, draft.number)) is not None:
        monitor.note(why)


def metrics_of(monitor: Monitor) -> dict[str, float | None]:
    """Return the metrics of the first pass, and what predictions were before they were calibrated."""
    by_label = monitor.metrics.by_label()
    raw = monitor.observed.raw(tuple(by_label))
    return flat({label: {**values, **raw.get(label, {})} for label, values in by_label.items()})


def validation_of(monitor: Monitor) -> dict[str, float | None]:
    """Return the metrics of the rows held out, before they were learned."""
    kept = monitor.validations.kept
    if kept is None:
        return {}
    gain = {} if kept.gain is None else {name: getattr(kept.gain, name) for name in GAINS}
    return {**flat(monitor.validations.by_label(kept)), **gain}


def told_of(rest: LearnedRest | None) -> str | None:
    """Say that rows held out were learned; None where they were not."""
    if rest is None:
        return None
    what = (
        "All rows were learned anew at the end" if rest.how == ALL else "The rows held out were learned at the end, in one pass"
    )
    return f"{what} ({HELD_OUT} = '{rest.how}'). The version's metrics are from before."


def held_back(model: str, number: int, failing: str) -> str:
    """Return why a version is held, in a sentence."""
    return f"Version {number} of model {model} is held, not served: {failing}"


def by_hand(model: str, number: int) -> str:
    """Return how to serve a held version nevertheless."""
    return (
        f"promote it by hand with ALTER MODEL {model} PROMOTE VERSION {number}: later versions then continue it, "
        "until PROMOTE LAST"
    )


def one_label(prepared: Prepared, metrics: Metrics) -> str | None:
    """Return a warning that a classifier saw only one label value."""
    labels = prepared.columns.labels if prepared.recipe.algorithm.classifier else ()
    if not labels or not metrics.examples:
        return None
    late = prepared.plan.clause(LABEL).late
    if late and metrics.shown <= 0 and prepared.parent is None:
        return (
            f"LABEL {labels[0]} LATE is 1 in all {metrics.examples:,} events: there is nothing to learn. A click is the event "
            "of its impression once more: send each impression with label 0 before, or leave LATE out."
        )
    if metrics.label_rate not in ((0,) if late else (0, 1)):
        return None
    return (
        f"LABEL {labels[0]} is {metrics.label_rate:.0f} in all {metrics.examples:,} examples: there is nothing to learn, and "
        "auc is NULL. Check how the query computes the label, and whether its filter removes the other value."
    )


def nothing_learned(prepared: Prepared, held: SavedShards, metrics: Metrics) -> str | None:
    """Return a warning that the rows had nothing to learn from; None where they had."""
    columns, algorithm = prepared.columns, prepared.recipe.algorithm
    slots = ", ".join(slot.name for slot in columns.slots)
    if prepared.parent is not None or not metrics.examples or algorithm.learns.learner is not None:
        return None
    if not columns.labels and metrics.as_dict()["mae"] == 0:
        if algorithm.match is not None:
            return (
                f"Nothing was learned: no row has an item to tell from others. Check how the query makes the rows of {slots}."
            )
        return (
            "Nothing was learned: no row has two values or more of a slot that belong together. Check how the query makes the "
            f"arrays of {slots}."
        )
    if held.saved.rows <= (algorithm.intercept is not None) and all(block.rows for block, _ in columns.blocks):
        why = "no row has a value that is not NULL, and all are predicted alike. Check how the query computes them"
        if algorithm.program is not None:
            why = "no two vertices have enough neighbours in common for a pair. Check SOURCE, TARGET, and what the query leaves"
        return f"Nothing was learned of {slots}: {why}."
    return None


def passed_over(prepared: Prepared, draft: Draft) -> str | None:
    """Report how many messages of a topic, or lines of files, could not be decoded as rows."""
    if prepared.segment is None or not (count := num_skipped(draft.folder)):
        return None
    of = "line" if isinstance(prepared.segment.splits[0], entries.RowGroup) else "message"
    return f"Skipped {count:,} {plural(of, count)}: {draft.folder / SKIPPED} lists them with the reason."


def worse_than_mean(prepared: Prepared, metrics: Metrics) -> str | None:
    """Return a warning that predictions during training were worse than a constant, as they are when weights diverge; None
    where they were not, or where predictions are not probabilities of the label."""
    options = prepared.plan.algorithm.options
    entropy, rate = metrics.as_dict()["normalized_entropy"], metrics.label_rate
    weighted = getattr(options, "positive_weight", 1.0) != 1 or getattr(options, "loss", "") == "focal"
    constant = f"the mean label {rate:.4g}" if prepared.recipe.algorithm.classifier else "the share of each class"
    if entropy is None or weighted or metrics.examples < ENOUGH_EXAMPLES or entropy < MUCH_WORSE:
        return None
    names = ", ".join(slot.name for slot in prepared.columns.raw)
    unscaled = f", or divide the numbers of {names}, which are learned as they are, so that most are below 1" if names else ""
    return (
        f"While learning, predictions were worse than {constant} for every example would have been: "
        f"normalized_entropy is {entropy:.2f}. Lower the learning rate{unscaled}."
    )


def evaluation_of(prepared: Prepared, monitor: Monitor, held: SavedShards) -> dict[str, float | None]:
    """Return the metrics over all windows, of values of the BY column too, and of the rows at the end."""
    evaluate = prepared.plan.clause(EVALUATE)
    metrics = monitor.evaluation() | flat(monitor.observed.raw(tuple(monitor.metrics.by_label())))
    if evaluate is not None and evaluate.by is not None and prepared.columns.labels:
        first = (window for window in monitor.windows.values() if window.pass_number == 0)
        fields = of_segments(by_value(first))
        metrics |= {key(name, evaluate.by): value for name, value in fields.items()}
    stored = {"features": held.saved.rows, "violations": held.described.reports.get("violations", 0.0), **held.saved.weights}
    return {**metrics, **stored, "examples_per_second": monitor.examples_per_second}


def metrics_served(models: Models, name: str) -> dict[str, float | None] | None:
    """Return the metrics of the served version, over its windows where it has any; None where none is served.

    A version that SHRINK of an earlier xpsql made has none: the metrics of its source version are returned.
    """
    versions = models.present(name)
    manifests = {version.number: version.manifest for version in versions}
    number = next((version.number for version in versions if version.served), None)
    if number is None:
        return None
    manifest: Manifest | None = manifests[number]
    while manifest is not None and not manifest.metrics:
        manifest = manifests.get(manifest.parent) if manifest.parent is not None else None
    return (
        {}
        if manifest is None
        else judged({**manifest.metrics, **manifest.evaluation}, manifest.validation, manifest.roles.labels)
    )


def monitors_of(monitor: Monitor, rest: LearnedRest | None) -> list[Monitor]:
    """Return the monitors of the parts of a training that are in its version."""
    if rest is None:
        return [monitor]
    return [rest.monitor] if rest.how == ALL else [monitor, rest.monitor]


def base_rate(monitors: Sequence[Monitor], prepared: Prepared) -> float:
    """Return the mean label of all examples so far, the parent's included."""
    parent, late = prepared.parent, prepared.recipe.algorithm.late
    rate = (parent.manifest.learned.base_rate or 0.0) if parent else 0.0
    before = shown(parent.manifest.learned.examples_total, rate, late) if parent else 0.0
    labels, count = before * rate, before
    for monitor in monitors:
        first = monitor.metrics.first
        passes = 1.0 if prepared.counts_by_pass else monitor.passes.examples / max(first.examples, 1)
        labels, count = labels + passes * first.label_sum, count + passes * first.shown
    return labels / max(count, 1)


def statistics_of(prepared: Prepared, held: SavedShards) -> dict[str, Any]:
    """Return what the encoder and dense parameters need again; see Manifest."""
    described = held.described
    return {"scaler": as_entry(described.moments), "scaled": list(prepared.columns.scaled), "now": described.now}


def position_of(prepared: Prepared) -> dict[str, Mapping[str, Any]]:
    """Return how far a version and its ancestors have learned from streams."""
    before = prepared.parent.position if prepared.parent is not None else {}
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
            s.raw,
        )
        for s in columns.all_slots
    )


def summary(done: Manifest) -> pa.Table:
    """Return the row that a training statement answers with."""
    row = {"model": done.model, "version": done.version, "status": done.status}
    row |= {"examples": done.learned.examples, "features": done.learned.rows}
    row |= {name: done.metrics.get(name) for name in ("auc", "logloss", "pcopc")}
    return pa.Table.from_pylist([{**row, "seconds": done.seconds}])
