"""Stage roles: the columns of the query become slots, labels and other roles, and the plan's parts are made for them."""

from __future__ import annotations

from ..recipe import fitted
from ..row_files.rows import check_continues
from .base import Preparation, Stage
from .positives import check_drawn


def check(given: Preparation) -> Preparation:
    """Find slots and roles, and make the parts; refuse a version that these cannot continue."""
    parent = given.parent
    recipe, columns = fitted(given.plan, given.schema, parent.manifest if parent else None)
    check_drawn(given.taking, recipe.algorithm, columns)
    if parent is not None:
        check_continues(recipe, parent)
    return given.having(recipe=recipe, columns=columns)


STAGE = Stage(check)
