"""Stage embeddings: the vectors of VECTORS are written into the version, or copied from the one before."""

from __future__ import annotations

from ...input.side.versions import located, with_elements, with_vectors
from ..clauses.vectors import VECTORS
from ..recipe import recipe_of
from .base import Mode, Preparation, Stage


def check(given: Preparation) -> Preparation:
    """Let EXPLAIN take the lengths of vectors from the first row of each query, for what it does not run."""
    if given.mode is not Mode.EXPLAIN or not given.columns.sides:
        return given
    columns = with_elements(given.plan.clause(VECTORS), given.columns, given.engine)
    return given.having(columns=columns, recipe=recipe_of(given.plan, columns))


def rows(given: Preparation) -> Preparation:
    """Write vectors, or find where an interrupted training wrote them."""
    if not given.columns.sides or (given.mode is Mode.EXPLAIN and given.quick):
        return given
    if given.resumed is not None:
        return given.having(columns=located(given.columns, given.resumed, given.folders))
    return given.having(
        columns=with_vectors(given.plan.clause(VECTORS), given.columns, given.engine, given.parent, given.folders)
    )


STAGE = Stage(check, rows)
