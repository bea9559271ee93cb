"""The start of a training from a stream: it returns at once where nothing has arrived."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ...warehouse.trainings.segments import read_passed, write_passed
from ..errors import StatementError
from ..input.streams.base import InputStream, Position, StreamQuery, StreamRelation
from ..input.streams.sources import opened
from .clauses.publish import PUBLISH
from .nothing_learned import unchanged
from .preparation.positives import taking_of
from .segment import begin_of, taken

if TYPE_CHECKING:
    from ...warehouse.models import Models
    from ...warehouse.version import Version
    from ..engines.base import Engine
    from ..progress import Reporter
    from .plan import Plan

STATUS = "nothing new"


def idle(relation: StreamRelation, parent: Version, warehouse: Path, forgives: bool, reporter: Reporter) -> pa.Table | None:
    """Return the result of a statement where nothing arrived since its parent; None where something may have."""
    stream = opened(relation, warehouse, forgives)
    before = begin_of(stream, parent, forgives)
    return None if stream.waits(before) else nothing(stream, before, parent, reporter)


def train_stream(plan: Plan, query: StreamQuery, engine: Engine, models: Models, reporter: Reporter) -> pa.Table:
    """Run a training statement on what has arrived in a stream; see train.train.

    Raises:
        StatementError: a new model has nothing to learn from.
    """
    taking_of(plan, engine)  # refuses what goes with queries that end
    if plan.clause(PUBLISH) is not None:
        from .resident.staying import reside

        return reside(plan, query, engine, models, reporter)
    from . import train

    parent = models.version(plan.model, plan.parent) if plan.parent is not None else None
    with taken(query, parent, engine, models.warehouse, plan.settings) as (stream, segment):
        if segment is not None:
            if (said := stream.noticed(segment.before)) is not None:
                reporter.note(said)
            return train.train(plan, segment.scan, engine, models, reporter, segment)
        if parent is None:
            raise StatementError(f"Nothing to learn has arrived in {stream.name} yet. Train once something has.")
        return nothing(stream, begin_of(stream, parent, plan.settings.forgives), parent, reporter)


def nothing(stream: InputStream, before: Position, parent: Version, reporter: Reporter) -> pa.Table:
    """Return the row of a training statement that had nothing to learn, and report it; what was lost and forgiven meanwhile
    stays forgiven."""
    manifest = parent.manifest
    if before != parent.position.get(stream.name, {}):
        write_passed(parent.folder, {**read_passed(parent.folder), stream.name: before})
        reporter.note(f"What {stream.name} has lost is passed over, now and later: data_loss = 'continue'.")
    reporter.note(
        f"Nothing to learn has arrived in {stream.name} since version {parent.number} of {manifest.model}, which has learned "
        f"{stream.counted(before)}; no version is made."
    )
    return unchanged(parent, STATUS)
