"""A training from statement to version: checks, input, workers, commit."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...warehouse import manifest as entries
from ...warehouse.manifest import Manifest
from ..engines.base import Engine, Scan
from ..errors import StatementError
from ..ps.client import LocalClient
from ..ps.shard import Shard
from .compiled import keep_compiled
from .metrics import Metrics
from .plan import Plan, batch_size
from .recipe import Recipe, fitted, recipe_of
from .scaling import Scaler
from .slots import CONTINUOUS, Columns
from .source import Source
from .splits import Split, check_labels, is_empty, splits_of, vector_dims
from .state import check_continues, dense_entries, load, new_shards, save, table_entries
from .step import learn_step
from .worker import Pace, Worker, run_free, run_gang

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ...warehouse.models import Models, Version
    from ..progress import Reporter
    from .batches import Batch

PROGRESS_SECONDS = 2.0
TELL_SECONDS = 0.25


class Prepared(NamedTuple):
    """A training that is checked and whose input is known."""

    plan: Plan
    recipe: Recipe
    columns: Columns
    scan: Scan
    splits: list[Split]


def train(plan: Plan, engine: Engine, models: Models, reporter: Reporter) -> pa.Table:
    """Run a training statement and commit its version.

    Returns:
        One row: model, version, status, examples, rows, auc, logloss, pcopc, seconds.

    Raises:
        StatementError: the statement cannot run; nothing has started.
        DataError, TrainingError, ModelError: it failed on the way; the version says so, and the version served stays.
    """
    keep_compiled()
    parent = models.version(plan.model, plan.parent) if plan.parent is not None else None
    recipe, columns = fitted(plan, engine.schema(plan.query), parent.manifest if parent else None)
    if parent is not None:
        check_continues(recipe, parent)
    scan = engine.scan(plan.query)
    with models.begin(plan.model, manifest_of(plan, columns, recipe), plan.replace) as draft:
        try:
            prepared = prepare(plan, columns, scan or engine.stage(plan.query, draft.staged))
        except BaseException:
            draft.discard()
            raise
        return run(prepared, parent, draft, reporter)


def prepare(plan: Plan, columns: Columns, scan: Scan) -> Prepared:
    """Look at the input before anything is learned from it; the parts are made again for vectors, whose lengths it tells.

    Raises:
        StatementError: it is empty, or its labels cannot be learned from.
        DataError: a file cannot be read.
    """
    splits = [split for split in splits_of(scan) if split.rows]
    if not splits or is_empty(scan, splits):
        raise StatementError("The query returns no rows; there is nothing to learn from.")
    columns = vector_dims(columns, scan, splits)
    recipe = recipe_of(plan, columns)
    if recipe.algorithm.classifier:
        check_labels(scan, splits, columns.labels)
    return Prepared(plan, recipe, columns, scan, splits)


def run(prepared: Prepared, parent: Version | None, draft: Draft, reporter: Reporter) -> pa.Table:
    """Learn from the input and commit."""
    plan, recipe, columns, scan, splits = prepared
    settings = plan.settings
    shards = new_shards(recipe, settings.shards, columns.slot_names)
    scaler = Scaler(len(columns.of_kind(CONTINUOUS)))
    if parent is not None:
        load(shards, parent)
        scaler = scaler_of(columns, parent)
    size = batch_size(settings, sum(split.rows for split in splits), recipe.algorithm.large_batches)
    source = Source(scan, splits, columns, size, settings.passes, recipe.algorithm.classifier, recipe.ladders)
    client, step = LocalClient(shards), learn_step(recipe.algorithm)
    gang = settings.workers == 1 or settings.sync == "bsp"
    monitor = Monitor(Metrics(recipe.algorithm.classifier), shards, draft, reporter)
    returned = [programs.spec.name for programs in recipe.programs if programs.needs_pulled]
    workers = [Worker(client, step, scaler, monitor.step, returned) for _ in range(1 if gang else settings.workers)]
    total = sum(split.rows for split in splits) * settings.passes
    reporter.start(f"{plan.model} v{draft.number}", total if scan.project is None else None)
    ended = ""
    try:
        if gang:
            run_gang(workers[0], source.batches, settings.workers)
        else:
            run_free(workers, source.batches, Pace(len(workers), settings.slack if settings.sync == "ssp" else None))
        saved = save(shards, draft, draft.manifest.tables)
        monitor.write(saved.as_dict())
        ended = f"{plan.model} v{draft.number}: {monitor.metrics.examples:,} examples learned"
    finally:
        reporter.finish(ended)
    metrics = monitor.metrics
    draft.commit(
        dataclasses.replace(
            draft.manifest,
            slots=slot_entries(columns),
            dense=dense_entries(recipe),
            splits=tuple(entries.Split(s.path, s.size, s.modified, s.row_group, 0, s.rows) for s in splits),
            examples=metrics.examples,
            rows=saved.rows,
            metrics=metrics.as_dict(),
            base_rate=base_rate(metrics, parent),
            statistics={
                "scaler": scaler.as_dict(),
                "scaled": [s.name for s in columns.of_kind(CONTINUOUS)],
                "now": shards[0].now,
            },
        )
    )
    return summary(draft)


def base_rate(metrics: Metrics, parent: Version | None) -> float:
    """Return the mean label of all examples so far, the parent's included."""
    before, rate = (parent.manifest.examples_total, parent.manifest.base_rate or 0.0) if parent else (0, 0.0)
    return (before * rate + metrics.examples * metrics.label_rate) / (before + metrics.examples)


class Monitor:
    """Turns the workers' predictions into metrics, the reporter's updates and the version's progress lines."""

    def __init__(self, metrics: Metrics, shards: Sequence[Shard], draft: Draft, reporter: Reporter) -> None:
        self.metrics = metrics
        self._shards = shards
        self._draft = draft
        self._reporter = reporter
        self._batches = 0
        self._lock = threading.Lock()
        self._began = self._written = self._told = time.monotonic()

    def step(self, batch: Batch, predictions: NDArray[np.float32]) -> None:
        """Count a batch that was learned from, scored before; tell once in a while."""
        with self._lock:
            self._batches += 1
            self.metrics.add(batch.label[0, : batch.examples], predictions)
            now = time.monotonic()
            if now - self._written >= PROGRESS_SECONDS:
                self.write({"rows": sum(map(len, self._shards))})
            elif now - self._told >= TELL_SECONDS:
                self._tell(self.metrics.as_dict())

    def write(self, stored: Mapping[str, float]) -> None:
        """Write a line of progress, with what is known of the rows, and update the reporter."""
        self._written = time.monotonic()
        metrics = self.metrics.as_dict()
        counted = {**stored, "violations": 0, **reports(self._shards)}
        speed = self.metrics.examples / max(self._written - self._began, 1e-9)
        self._draft.progress({"batch": self._batches, **metrics, **counted, "examples_per_second": speed})
        self._tell(metrics)

    def _tell(self, metrics: Mapping[str, float | None]) -> None:
        self._told = time.monotonic()
        shown = {name: value for name in ("logloss", "auc") if (value := metrics[name]) is not None}
        self._reporter.update(self.metrics.examples, shown)


def reports(shards: Sequence[Shard]) -> dict[str, float]:
    """Sum what the operators of all shards counted, such as violations."""
    names = dict.fromkeys(name for shard in shards for name in shard.reports)
    return {name: sum(shard.reports.get(name, 0.0) for shard in shards) for name in names}


def scaler_of(columns: Columns, version: Version) -> Scaler:
    """Return a version's scaler with a line for each continuous slot of `columns`; new slots start afresh."""
    state, names = version.manifest.statistics["scaler"], list(version.manifest.statistics["scaled"])
    slots = [slot.name for slot in columns.of_kind(CONTINUOUS)]
    picked = {field: [line[names.index(s)] if s in names else 0.0 for s in slots] for field, line in state.items()}
    return Scaler.from_dict(picked)


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
        for s in (*columns.slots, *columns.intercept_slot)
    )


def summary(draft: Draft) -> pa.Table:
    """Return the row that a training statement answers with."""
    done = draft.manifest
    row = {"model": done.model, "version": done.version, "status": done.status, "examples": done.examples, "rows": done.rows}
    row |= {name: done.metrics.get(name) for name in ("auc", "logloss", "pcopc")}
    return pa.Table.from_pylist([{**row, "seconds": done.seconds}])
