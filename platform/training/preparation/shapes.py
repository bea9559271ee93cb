"""Stage shapes: the lengths of vectors, which the rows tell, and the parts that are made for them."""

from __future__ import annotations

from ...display import plural
from ...input.columns import Columns
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
        if recipe.algorithm.traits.edges and columns.ends is None:
            tell_nulls(given, columns)
        if given.plan.stream is None:
            check_weights(given.scan, given.splits, columns.weight)
    return given.having(columns=columns, recipe=recipe)


def tell_nulls(given: Preparation, columns: Columns) -> None:
    """Tell how many edges have a NULL end, of those that statistics of the files know."""
    for slot in columns.slots:
        if nulls := sum(found.nulls or 0 for found in given.scan.bounds(given.splits, slot.column)):
            given.note(f"{slot.name} is NULL in {nulls:,} {plural('row', nulls)}, from which nothing is learned.")


STAGE = Stage(rows=rows)
