"""Stage shapes: the lengths of vectors, which the rows tell, and the parts that are made for them."""

from __future__ import annotations

from ...input.splits import check_labels, check_weights, vector_dims
from ..recipe import recipe_of
from ..row_files.rows import check_continues
from .base import Preparation, Stage


def rows(given: Preparation) -> Preparation:
    """Make the parts again, and refuse labels that statistics of the files show to be none that it takes."""
    columns = vector_dims(given.columns, given.scan, given.splits)
    recipe = recipe_of(given.plan, columns)
    if given.resumed is None:
        if given.parent is not None:
            check_continues(recipe, given.parent)
        loss = recipe.algorithm.loss
        if loss is not None and (loss.classifier or loss.counts):
            check_labels(given.scan, given.splits, columns.labels, loss)
        if given.plan.stream is None:
            check_weights(given.scan, given.splits, columns.weight)
    return given.having(columns=columns, recipe=recipe)


STAGE = Stage(rows=rows)
