"""RESUME MODEL: go on with a training that was interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ....warehouse.folders import newest_interrupted
from ...engines.spark_sql.passage import Passage
from ...options import Value, written
from ...training.auto.journal import journal_folder, statement_of
from ...training.clauses.budget import BUDGET
from ...training.clauses.using import Given
from ...training.plan import STORED, Plan
from ...training.recipe import options_in
from .. import clauses, inherited, streams
from ..base import Command, Statement
from ..bound_histories import bound_again
from ..cursor import Cursor
from ..query import Query
from . import STATEMENTS

if TYPE_CHECKING:
    from ....warehouse.manifest import Manifest
    from ....warehouse.models import Models
    from ...engines.base import Engine
    from ...progress import Reporter
    from ..context import StatementContext


@dataclass(frozen=True)
class Resume:
    """A training that goes on from its last checkpoint."""

    model: str

    def run(self, context: StatementContext) -> pa.Table:
        from ...training.start import resume

        if newest_interrupted(context.models.present(self.model)) is None:
            searched = statement_of(journal_folder(context.models, self.model))
            if searched is not None:  # USING auto, which was killed before it began the version
                done = command_of(searched).run(Resuming(context.engine, context.models, context.reporter))
                assert done is not None  # a search answers
                return done
        plan = plan_of(context.models.interrupted(self.model).manifest, context.models.warehouse)
        return resume(plan, context.engine, context.models, context.reporter)


@dataclass
class Resuming:
    """A context in which a statement goes on; see StatementContext."""

    engine: Engine
    models: Models
    reporter: Reporter
    resumes: bool = True


def command_of(statement: str) -> Command:
    """Return the command of a TRAIN statement."""
    train, cursor = STATEMENTS.find("TRAIN"), Cursor.of(statement)
    assert train is not None
    cursor.expect(train.name)
    return train.parse(cursor)


def resumed(context: StatementContext, model: str, statement: str) -> Resume | None:
    """Return the training to go on with in place of a statement, in a context that resumes; None where there is none."""
    if not context.resumes or (waiting := newest_interrupted(context.models.present(model))) is None:
        return None
    budget = BUDGET.kept(waiting.manifest)
    if statement in (waiting.manifest.statement, budget and budget.statement):
        return Resume(model)
    number = waiting.number
    context.reporter.note(
        f"Version {number} of {model} was interrupted in another statement, so this one begins anew: SHOW TRAIN MODEL {model} "
        f"VERSION {number} shows that one, and RESUME MODEL {model} continues it."
    )
    return None


def plan_of(manifest: Manifest, warehouse: Path) -> Plan:
    """Return the plan of a training, from its manifest.

    Raises:
        ModelError: a version of a stored history that it read is gone.
    """
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
        clauses={**inherited.all_values(manifest), STORED: bound_again(manifest.histories, warehouse)},
    )


def parse(cursor: Cursor) -> Resume:
    return Resume(cursor.identifier("a model name"))


RESUME = Statement(
    "RESUME MODEL",
    "RESUME MODEL name",
    "Continue an interrupted training from its last checkpoint, or a search by USING auto with the trials that are over.",
    parse,
)
