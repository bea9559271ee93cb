"""Algorithms of other packages, as ours: what a package learns from a matrix stands where a score of rows does elsewhere."""

from __future__ import annotations

from ...platform.operators.base import Column, Operator, TableSpec
from ..base import Algorithm, Packaged
from ..learner import Learner
from ..losses import Loss


def learned_by(learner: Learner, loss: Loss) -> Algorithm:
    """Return the algorithm of a package; its one table has a row for each category, whose weight is the category's number."""
    return Algorithm(
        tables=(TableSpec("weights", 1),),
        optimizer=lambda table: Operator({"w": Column(table.dim)}, optimizer=True, name="package"),
        learns=Packaged(learner, loss),
        intercept=None,
    )
