"""Options that have no effect on a training are refused: what its algorithm or its slots have no use for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...algorithms.base import Algorithm
from ...warehouse.manifest import Manifest
from ..dependent import ARRAYS, BATCHES, CATEGORIES, COMMON, COUNTED, DRIFTS, NUMBERS, ROUNDS, check_facts
from ..errors import StatementError, Subject
from ..input.columns import Columns
from ..options import as_tuple
from .clauses.apply import APPLY
from .clauses.calibrate import CALIBRATE
from .clauses.column_roles import GROUP
from .clauses.evaluate import EVALUATE
from .clauses.label import LABEL
from .clauses.publish import PUBLISH
from .clauses.release import RELEASE
from .clauses.settings import BASE_RATE, COOLDOWN, SYNC, TARGET, VECTORS_RUN
from .clauses.validate import VALIDATE
from .metrics import METRICS, metrics_for
from .metrics.gate import DRIFT, DRIFT_MAX, GAINS, OF_FIELD, OF_SLOT, RAW, VALIDATION, Node
from .metrics.metrics import Targets
from .plan import Plan

BY_KIND = {"classes": "auc or logloss", "multiclass": "logloss or accuracy", "numbers": "mae or rmse", "found": "mae or recall"}


def check_settings(plan: Plan, algorithm: Algorithm) -> None:
    """Refuse settings without a meaning for an algorithm.

    Raises:
        StatementError: says which, and what to do.
    """
    check_base_rate(plan, algorithm)
    check_target(plan, algorithm)
    if plan.settings.cooldown and plan.stream is not None:
        message = (
            f"{COOLDOWN} = {plan.settings.cooldown:g} is a share of the rows of a query, and a stream has no end. Leave it out."
        )
        raise StatementError(message, subject=COOLDOWN)
    check_vectors_run(plan)
    if plan.settings.sync == "hybrid" and not algorithm.dense:
        raise StatementError(
            f"{SYNC} = 'hybrid' keeps workers in step over dense parameters, and {plan.algorithm.name} has none. Take 'asp', "
            "or 'bsp' where results must not depend on timing.",
            subject=SYNC,
        )


def check_vectors_run(plan: Plan) -> None:
    """Refuse networks on shards where steps are not made together, or are made on a device."""
    settings = plan.settings
    if settings.vectors_run != "shards":
        return
    if not settings.together:
        raise StatementError(
            f"{VECTORS_RUN} = 'shards' needs sync = 'bsp' or 'hybrid', with which a step of the network is one of all workers; "
            f"got sync = '{settings.sync}'. Set sync, or leave vectors_run out.",
            subject=VECTORS_RUN,
        )
    if settings.device == "gpu" or settings.rows_on == "device":
        message = f"{VECTORS_RUN} = 'shards' runs the network on CPUs. Leave device and rows_on out, or vectors_run."
        raise StatementError(message, subject=VECTORS_RUN)


def check_apply(plan: Plan, algorithm: Algorithm) -> None:
    """Refuse updates of rows in a training that has no shards, does not end, or has its rows elsewhere."""
    each_pass = any(not one.every for one in plan.clause(APPLY))
    if not algorithm.serves:
        why = f"{plan.algorithm.name} learns from all rows at once. ALTER MODEL ... APPLY changes what it has learned"
    elif plan.clause(PUBLISH) is not None:
        why = "every version that PUBLISH makes would have all rows. ALTER MODEL ... APPLY changes a version"
    elif plan.stream is not None and each_pass:
        why = "a stream has no passes. Name a number of BATCHES"
    elif plan.settings.rows_on == "device":
        why = "the rows lie on a device. Leave rows_on out"
    else:
        return
    raise StatementError(f"{APPLY} has no effect here: {why}.", subject=APPLY.subject)


def check_base_rate(plan: Plan, algorithm: Algorithm) -> None:
    """Refuse a base rate that labels cannot have, or that has no effect on the algorithm."""
    given = plan.settings.base_rate
    if given is None:
        return
    if algorithm.baseline is None or algorithm.intercept is None or algorithm.multiclass:
        name = plan.algorithm.name
        begins = (
            "each class begins at its own share" if algorithm.multiclass else f"{name} does not begin at the mean of the labels"
        )
        message = f"{BASE_RATE} = {given:g} has no effect: {begins}."
        raise StatementError(message, subject=BASE_RATE)
    if algorithm.loss is not None and algorithm.loss.counts and given <= 0:
        message = f"{BASE_RATE} = {given:g} must be above 0, the mean of labels of at least 0."
        raise StatementError(message, subject=BASE_RATE)
    if algorithm.classifier and not 0 < given < 1:
        message = f"{BASE_RATE} = {given:g} must be between 0 and 1, the part of labels that are 1."
        raise StatementError(message, subject=BASE_RATE)


def check_profiled(leaf: Node, algorithm: Algorithm, slots: Sequence[str]) -> None:
    """Refuse drift of what has no profile."""
    if not algorithm.learns.serves:
        message = f"{RELEASE} WHEN names {leaf.name}, and only trainings that learn batch by batch profile their rows."
        raise StatementError(message, subject=RELEASE.subject)
    if leaf.label is not None and leaf.label.lower() not in map(str.lower, slots):
        message = f"{RELEASE} WHEN names {leaf.name}; slots are: {', '.join(slots)}."
        raise StatementError(message, subject=RELEASE.subject)


def check_gain(plan: Plan, algorithm: Algorithm, leaf: Node) -> None:
    """Refuse a gain where no rows are decisions, or predictions cannot choose."""
    validate = plan.clause(VALIDATE)
    if leaf.kind == "metric" and (validate is None or validate.query is None):
        message = (
            f"{RELEASE} WHEN names {leaf.name}, what the model would earn on requests that a service decided. Give them: "
            f"{VALIDATE} ON (query), a row for each candidate."
        )
        raise StatementError(message, subject=RELEASE.subject)
    if not algorithm.values:
        message = (
            f"{RELEASE} WHEN names {leaf.name}, which needs labels of 0 and 1, or numbers; {plan.algorithm.name} has none."
        )
        raise StatementError(message, subject=RELEASE.subject)


def check_release(plan: Plan, algorithm: Algorithm, slots: Sequence[str]) -> None:
    """Refuse a release condition that names a metric which is never known: no training could meet it."""
    release, columns = plan.clause(RELEASE), plan.clause(LABEL).columns
    leaves = [leaf for leaf in release.tree.leaves() if leaf.kind != "number"] if release is not None else []
    labels = {label.lower() for label in columns}
    evaluate = plan.clause(EVALUATE)
    by = "" if evaluate is None or evaluate.by is None else evaluate.by
    for leaf in leaves:
        if leaf.value in (*OF_SLOT, DRIFT_MAX):
            check_profiled(leaf, algorithm, slots)
        elif str(leaf.value).removeprefix(VALIDATION) in GAINS:
            check_gain(plan, algorithm, leaf)
        elif leaf.value in OF_FIELD:
            if str(leaf.label).lower() != by.lower() or not algorithm.classifier:
                message = (
                    f"{RELEASE} WHEN names {leaf.name}, which is measured of probabilities in windows by that column. Add "
                    f"EVALUATE EVERY m BATCHES ON n BATCHES BY {leaf.label}."
                )
                raise StatementError(message, subject=RELEASE.subject)
        elif str(leaf.value).startswith(RAW) and plan.clause(CALIBRATE) is None:
            message = f"{RELEASE} WHEN names {leaf.name}, and nothing is calibrated. Leave {RAW} out, or add CALIBRATE."
            raise StatementError(message, subject=RELEASE.subject)
        elif leaf.label is not None and leaf.label.lower() not in labels:
            labelled = ", ".join(columns) or "none"
            message = f"{RELEASE} WHEN names {leaf.name}, and {leaf.label} is not a label: LABEL has {labelled}."
            raise StatementError(message, subject=RELEASE.subject)
    named, targets = (
        {str(leaf.value).removeprefix(VALIDATION) for leaf in leaves},
        Targets.of(columns, algorithm.measured, plan.clause(GROUP) is not None, algorithm.late),
    )
    known = {metric.name for metric in metrics_for(targets.traits)}
    lacking = [metric for metric in METRICS if metric.name in named and metric.name not in known]
    with_groups = {metric.name for metric in metrics_for(targets.traits | {"groups"})}
    never = list(dict.fromkeys(metric.name for metric in lacking if metric.name not in with_groups))
    if never:
        by = BY_KIND[algorithm.measured.partition(" ")[0]]
        raise StatementError(
            f"{RELEASE} WHEN names {', '.join(never)}, which {plan.algorithm.name} does not measure here. Judge it by {by}.",
            subject=RELEASE.subject,
        )
    for metric in lacking:
        message = f"{RELEASE} WHEN names {metric.name}, which needs groups. Name their column with GROUP."
        raise StatementError(message, subject=RELEASE.subject)


def check_given(plan: Plan, algorithm: Algorithm, columns: Columns, parent: Manifest | None) -> None:
    """Refuse options of USING and WITH that have no effect on what is learned; those that a version hands on may be.

    Raises:
        OptionError: names the option and what it needs.
    """
    layout, release = columns.layout, plan.clause(RELEASE)
    so = {
        BATCHES: algorithm.serves,
        ROUNDS: algorithm.serves or algorithm.program is not None,
        COUNTED: algorithm.serves or bool(columns.offered),
        COMMON: algorithm.traits.compact,
        ARRAYS: bool(layout.bags),
        NUMBERS: bool(columns.continuous or layout.vectors),
        CATEGORIES: bool(layout.scalar),
        DRIFTS: release is not None and any(leaf.value in (DRIFT, DRIFT_MAX) for leaf in release.tree.leaves()),
    }
    facts = {fact.name for fact, holds in so.items() if holds}
    given = {name.lower() for name in plan.algorithm.given} - plan.inherited
    check_facts(plan.algorithm.options, given, Subject("USING", plan.algorithm.name), facts)
    before = {} if parent is None else parent.settings
    usual = {field.name: field.default for field in dataclasses.fields(plan.settings)}
    said = {name: getattr(plan.settings, name) for name in usual}
    own = {name for name, value in said.items() if value != usual[name] and value != as_tuple(before.get(name))}
    check_facts(plan.settings, own, Subject("WITH"), facts)


def check_target(plan: Plan, algorithm: Algorithm) -> None:
    """Refuse a target that is no duration, or by which nothing can be planned."""
    if plan.settings.target_seconds is None:
        return
    if plan.clause(PUBLISH) is not None:
        message = f"{TARGET} is for a training that ends, and PUBLISH EVERY makes one that stays. Leave either out."
        raise StatementError(message, subject=TARGET)
    if not algorithm.serves:
        raise StatementError(
            f"{TARGET} needs an algorithm that learns batch by batch, as xftrl does; {plan.algorithm.name} learns from all "
            "rows at once. Leave it out.",
            subject=TARGET,
        )
