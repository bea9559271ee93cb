"""The record of a training's input in its manifest, so that RESUME reads the same input."""

from __future__ import annotations

import base64
import dataclasses
from typing import TYPE_CHECKING

import pyarrow as pa

from ...warehouse.manifest import CLASSES, VECTORS, Manifest
from ..engines.base import Engine, Scan, Staged
from ..engines.parquet_scan import ParquetScan
from ..errors import StatementError
from ..input.columns import columns_from
from ..input.row_counts import counted
from ..input.side.versions import located, vectors_entries
from ..input.splits import vector_dims
from .baseline import baseline_of
from .hold_out import divided, hold_out
from .parallelism import Places, places_of
from .plan import Plan
from .prepared import Prepared, TrainingInput
from .recipe import fitted, recipe_of
from .row_files.rows import table_entries
from .segment import cut_again
from .taking import taking_again

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ...warehouse.version import Version


def recorded(manifest: Manifest, prepared: Prepared) -> Manifest:
    """Return the manifest of a version in training with what RESUME needs beside the statement."""
    segment, classes = prepared.segment, prepared.columns.classes
    return dataclasses.replace(
        manifest,
        splits=() if segment is not None and prepared.plan.settings.delay is None else tuple(prepared.splits),
        stream=None if segment is None else segment.stream.name,
        input=prepared.scan.entry(),
        classes=() if classes is None else classes.values,
        class_type="" if classes is None else classes.type,
        requires=(*(() if classes is None else (CLASSES,)), *((VECTORS,) if prepared.columns.sides else ())),
        vectors=vectors_entries(prepared.plan.vectors, prepared.columns, prepared.parent),
        tables=table_entries(prepared.recipe),
        batch_size=prepared.batch_size,
        passes=prepared.passes,
        shards=prepared.places.shards,
        workers=prepared.places.workers,
        expected=prepared.num_examples,
    )


def prepare_again(plan: Plan, draft: Draft, engine: Engine, parent: Version | None) -> Prepared:
    """Return what `recorded` was given.

    Raises:
        StatementError: the query's expressions cannot be made again in this session, or there is no room for the training.
        DataError: a file changed or is gone.
    """
    manifest = draft.manifest
    kept = plan.stream is None or plan.settings.delay is not None
    scan = scan_again(plan, manifest, engine) if kept else None
    segment = None if plan.stream is None else cut_again(plan.stream, parent, draft.folder, plan.settings.forgives, scan)
    if scan is None:
        assert segment is not None
        assert not isinstance(segment.scan, Staged)
        scan = segment.scan
    splits = list(manifest.splits) if kept else scan.splits()
    for split in splits:
        scan.check(split)
    taking = taking_again(plan, engine, draft.items)
    scan = scan if taking is None else taking.rows(scan)
    _, columns = fitted(plan, scan.schema, parent.manifest if parent else None)
    splits, counts = counted(scan, splits, (columns.labels or columns.learned)[0])
    if plan.validate is not None and plan.validate.share is not None:
        scan, counts = divided(plan.validate, scan, splits, counts)
    columns = dataclasses.replace(vector_dims(columns, scan, splits), classes=columns_from(manifest).classes)
    columns = located(columns, manifest, draft)
    recipe = recipe_of(plan, columns)
    hold = hold_out(plan, engine, scan, splits, columns, draft.apart, taking)
    places = places_again(plan, manifest, engine, recipe.algorithm.serves)
    baseline = baseline_of(plan, recipe, columns, scan, splits) if parent is None else ()
    passes = manifest.passes or plan.settings.passes or 1
    size = manifest.batch_size
    given = TrainingInput(
        plan, columns, scan, splits, size, parent, places, baseline, counts=counts, passes=passes, taking=taking
    )
    return given.with_recipe(recipe, hold, segment)


def scan_again(plan: Plan, manifest: Manifest, engine: Engine) -> Scan:
    """Return how the splits are read."""
    record = manifest.input
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(record["schema"])))
    if not record["projected"]:
        return ParquetScan((), dict(record["columns"]), None, tuple(record["needed"]), schema).over(manifest.splits)
    scan = engine.scan(plan.query)
    if isinstance(scan, Staged) or scan.exact or not scan.schema.equals(schema):
        raise StatementError(
            f"RESUME needs the query of version {manifest.version} to mean what it meant; it reads other columns now. Make the "
            "tables and views that it names as they were, or train again."
        )
    return scan.over(manifest.splits)


def places_again(plan: Plan, manifest: Manifest, engine: Engine, serves: bool) -> Places:
    """Return as many shards and workers as there were, or as many as there is room for where the statement does not say."""
    before = Places(manifest.shards, manifest.workers)
    if engine.tasks is None or sum(before) <= engine.tasks.slots(sum(before), plan.settings.together):
        return before
    return places_of(plan.settings, engine.tasks, serves)
