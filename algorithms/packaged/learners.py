"""Algorithms of other packages, as ours: what a package learns from a matrix stands where a score of rows does elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import jax

from ...platform.operators.base import Column, Operator, TableSpec
from ..base import Algorithm, Inputs, Learner
from ..losses import LOGLOSS, SQUARED


def learned_by(learner: Learner, classifier: bool) -> Algorithm:
    """Return the algorithm of a package; its one table has a row for each category, whose weight is the category's number."""
    loss = LOGLOSS if classifier else SQUARED
    return Algorithm(
        tables=(TableSpec("weights", 1),),
        optimizer=lambda table: Operator({"w": Column(table.dim)}, optimizer=True, name="package"),
        scores=no_scores,
        link=loss.link,
        loss=loss.value,
        classifier=classifier,
        intercept=False,
        learner=learner,
    )


def no_scores(parameters: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
    raise TypeError("An algorithm of another package is scored by its learner, not from rows.")
