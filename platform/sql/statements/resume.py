"""RESUME MODEL: go on with a training that was interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ....warehouse.folders import newest_interrupted
from ...engines.spark_sql.passage import Passage
from ...options import Value, written
from ...training.clauses.using import Given
from ...training.plan import Plan
from ...training.recipe import options_in
from .. import clauses, inherited, streams
from ..base import Statement
from ..cursor import Cursor
from ..query import Query

if TYPE_CHECKING:
    from ....warehouse.manifest import Manifest
    from ..context import StatementContext


@dataclass(frozen=True)
class Resume:
    """A training that goes on from its last checkpoint."""

    model: str

    def run(self, context: StatementContext) -> pa.Table:
        from ...training.start import resume

        plan = plan_of(context.models.interrupted(self.model).manifest)
        return resume(plan, context.engine, context.models, context.reporter)


def resumed(context: StatementContext, model: str, statement: str) -> Resume | None:
    """Return the training to go on with in place of a statement, in a context that resumes; None where there is none."""
    if not context.resumes or (waiting := newest_interrupted(context.models.present(model))) is None:
        return None
    if waiting.manifest.statement == statement:
        return Resume(model)
    number = waiting.number
    context.reporter.note(
        f"Version {number} of {model} was interrupted in another statement, so this one begins anew: SHOW TRAIN MODEL {model} "
        f"VERSION {number} shows that one, and RESUME MODEL {model} continues it."
    )
    return None


def plan_of(manifest: Manifest) -> Plan:
    """Return the plan of a training, from its manifest."""
    algorithm = Given(Value(manifest.algorithm.name), written(options_in(manifest)))
    stream = None if manifest.stream.name is None else streams.stream_in(Query.of(Passage.of(manifest.query)))
    return Plan(
        statement=manifest.statement,
        model=manifest.model,
        algorithm=clauses.algorithm(algorithm),
        operators=clauses.operators(inherited.operators(manifest)),
        query=manifest.query,
        settings=clauses.settings(written(manifest.settings)),
        parent=manifest.parent,
        replace=manifest.replaces,
        stream=None if stream is None else stream.query,
        clauses=inherited.all_values(manifest),
    )


def parse(cursor: Cursor) -> Resume:
    return Resume(cursor.identifier("a model name"))


RESUME = Statement(
    "RESUME MODEL",
    "RESUME MODEL name",
    "Continue an interrupted training from its last checkpoint.",
    parse,
)
