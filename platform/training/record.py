"""The record of a training's input in its manifest, so that RESUME reads the same input."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...warehouse import manifest as names
from ...warehouse.entries import RolesEntry, SizesEntry
from ...warehouse.manifest import Manifest
from ..engines.base import Engine
from ..engines.tasks import Tasks
from ..input.columns import Columns
from ..input.side.versions import vectors_entries
from .clauses import CLAUSES
from .clauses.calibrate import CALIBRATE
from .clauses.vectors import VECTORS
from .plan import Plan
from .preparation.base import Mode, Preparation
from .preparation.stages import checked, prepared
from .preparation.staging import found_again
from .prepared import Prepared
from .provenance.chosen import chosen_options
from .row_files.rows import table_entries

if TYPE_CHECKING:
    from ...warehouse.draft import Draft
    from ...warehouse.version import Version


def recorded(manifest: Manifest, training: Prepared) -> Manifest:
    """Return the manifest of a version in training with what RESUME needs beside the statement."""
    segment = training.segment
    sizes = SizesEntry(training.batch_size, training.passes, *training.places, training.num_examples)
    return dataclasses.replace(
        manifest,
        splits=() if segment is not None and training.plan.settings.delay is None else tuple(training.splits),
        stream=dataclasses.replace(manifest.stream, name=None if segment is None else segment.stream.name),
        input=training.scan.entry(),
        clauses=clauses_entry(training.plan),
        roles=roles_entry(training.columns),
        requires=(
            *(() if training.columns.classes is None else (names.CLASSES,)),
            *((names.VECTORS,) if training.columns.sides else ()),
            *((names.CALIBRATED,) if is_calibrated(training.plan) else ()),
            *((names.HISTORIES,) if training.columns.histories else ()),
        ),
        vectors=vectors_entries(training.plan.clause(VECTORS), training.columns, training.parent),
        tables=table_entries(training.recipe),
        sizes=sizes,
        chosen=chosen_options(training.plan, training.columns, sizes),
    )


def is_calibrated(plan: Plan) -> bool:
    """Return whether predictions of a version are not what the model says."""
    return plan.clause(CALIBRATE) is not None or plan.settings.negatives_kept is not None


def clauses_entry(plan: Plan) -> dict[str, Any]:
    """Return what a manifest keeps of the clauses of a plan."""
    found: dict[str, Any] = {}
    for clause in CLAUSES:
        found |= clause.entry(plan.clauses)
    return found


def roles_entry(columns: Columns) -> RolesEntry:
    """Describe the columns that are no slots as the manifest does."""
    classes, roles = columns.classes, (columns.weight, columns.time, columns.group, columns.by, columns.ignore)
    stored = tuple(history.entry for history in columns.histories)
    if classes is None or not classes.known:
        return RolesEntry(columns.labels, (), "", *roles, stored)
    return RolesEntry(columns.labels, classes.values, classes.type, *roles, stored)


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
