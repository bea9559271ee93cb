"""Stage computed: columns that clauses compute of each row; a registry of clauses says which."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ...engines.base import Scan
from ...input.slot_types import require_number
from ...input.splits import CHUNK_ROWS
from ..clauses import CLAUSES
from ..clauses.base import AnyClause, ComputedColumn
from ..clauses.computed_rows import computing, with_field
from ..plan import Plan
from .base import Mode, Preparation, Stage


def computed_by(plan: Plan) -> Iterator[tuple[AnyClause, ComputedColumn]]:
    """Yield the clauses of a plan that compute a column, and what they compute.

    Raises:
        StatementError: clauses lack what they need.
    """
    for clause in CLAUSES:
        if clause.name in plan.clauses and clause.computes is not None:
            found = clause.computes(plan.clause(clause), plan.clauses)
            if found is not None:
                yield clause, found


def with_computed(scan: Scan, plan: Plan) -> Scan:
    """Return rows of a plan with the columns that its clauses compute."""
    for _, computed in computed_by(plan):
        scan = computing(scan, computed)
    return scan


def schema_with(schema: pa.Schema, plan: Plan) -> pa.Schema:
    """Return columns of a plan's rows with those that its clauses compute."""
    for _, computed in computed_by(plan):
        replaces = computed.field.name.lower() in {name.lower() for name in computed.reads}
        if not replaces or computed.field.name.lower() in {name.lower() for name in schema.names}:  # else the roles refuse it
            schema = with_field(schema, computed.field)
    return schema


def check(given: Preparation) -> Preparation:
    """Refuse clauses that lack what they need, and a column in the place of one that is no number."""
    schema = given.schema
    for clause, computed in computed_by(given.plan):
        own = {field.name.lower(): field for field in schema}
        if (replaced := own.get(computed.field.name.lower())) is not None:
            require_number(replaced, clause.subject)
    return given.having(schema=schema_with(schema, given.plan))


def rows(given: Preparation) -> Preparation:
    """Find what all rows decide, which RESUME has from the manifest, and compute the columns wherever rows are read."""
    plan, scan = given.plan, given.scan
    for clause, computed in computed_by(plan):
        if clause.fit is not None and given.mode is Mode.LEARN:
            plan = plan.having(clause, clause.fit(plan.clause(clause), tables(scan, computed)))
    return given.having(plan=plan, scan=with_computed(scan, plan))


def tables(scan: Scan, computed: ComputedColumn) -> Iterator[pa.Table]:
    """Read the columns that a column is computed of."""
    for split in scan.splits():
        if split.rows:
            yield from scan.read(split, list(computed.reads), CHUNK_ROWS)


STAGE = Stage(check, rows)
