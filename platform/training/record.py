"""The record of a training's input in its manifest, so that RESUME reads the same input."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...warehouse.manifest import CLASSES, VECTORS, Manifest
from ..engines.base import Engine
from ..engines.tasks import Tasks
from ..input.side.versions import vectors_entries
from .plan import Plan
from .preparation.base import Mode, Preparation
from .preparation.stages import checked, prepared
from .preparation.staging import found_again
from .prepared import Prepared
from .row_files.rows import table_entries

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ...warehouse.version import Version


def recorded(manifest: Manifest, training: Prepared) -> Manifest:
    """Return the manifest of a version in training with what RESUME needs beside the statement."""
    segment, classes = training.segment, training.columns.classes
    return dataclasses.replace(
        manifest,
        splits=() if segment is not None and training.plan.settings.delay is None else tuple(training.splits),
        stream=None if segment is None else segment.stream.name,
        input=training.scan.entry(),
        classes=() if classes is None else classes.values,
        class_type="" if classes is None else classes.type,
        requires=(*(() if classes is None else (CLASSES,)), *((VECTORS,) if training.columns.sides else ())),
        vectors=vectors_entries(training.plan.vectors, training.columns, training.parent),
        tables=table_entries(training.recipe),
        batch_size=training.batch_size,
        passes=training.passes,
        shards=training.places.shards,
        workers=training.places.workers,
        expected=training.num_examples,
    )


def prepared_again(
    plan: Plan, draft: Draft, engine: Engine, tasks: Tasks | None, parent: Version | None, note: Callable[[str], None]
) -> Prepared:
    """Return what `recorded` was given.

    Args:
        tasks: where it goes on; None: in this process.

    Raises:
        StatementError: the query's expressions cannot be made again in this session, or there is no room for the training.
        DataError: a file changed or is gone.
    """
    found, segment = found_again(plan, draft, engine, parent)
    given = Preparation(Mode.RESUME, plan, engine, tasks, parent, found, segment, note, manifest=draft.manifest)
    return prepared(checked(given), draft)
