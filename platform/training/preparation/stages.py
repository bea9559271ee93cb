"""All stages of a preparation, in order, and what they make: TRAIN, CONTINUE, EXPLAIN, RESUME and resident trainings."""

from __future__ import annotations

from ....warehouse.files import VersionFiles
from ..prepared import Prepared, TrainingInput
from . import (
    baseline,
    calibration,
    classes,
    computed,
    counts,
    embeddings,
    hold_out,
    limits,
    positives,
    roles,
    shapes,
    sizes,
    staging,
    vectors_run,
)
from .base import Preparation, Stage

STAGES: tuple[Stage, ...] = (
    staging.STAGE,
    positives.STAGE,
    computed.STAGE,
    roles.STAGE,
    limits.STAGE,
    calibration.STAGE,
    embeddings.STAGE,
    classes.STAGE,
    counts.STAGE,
    shapes.STAGE,
    sizes.STAGE,
    vectors_run.STAGE,
    hold_out.STAGE,
    baseline.STAGE,
)


def checked(given: Preparation) -> Preparation:
    """Refuse what the statement must not say; no rows are read, and nothing is written.

    Raises:
        StatementError: names the clause and what to do.
    """
    for stage in STAGES:
        given = stage.check(given)
    return given


def prepared(given: Preparation, folders: VersionFiles) -> Prepared:
    """Return a checked training with all that its rows decide.

    Args:
        folders: where the rows of queries go that cannot be read in place.

    Raises:
        StatementError: there are no rows, or they cannot be learned from.
        DataError: a file cannot be read.
    """
    given = given.having(folders=folders)
    for stage in STAGES:
        given = stage.rows(given)
    batch_size, passes, places = given.sizes
    found = TrainingInput(
        given.plan,
        given.columns,
        given.scan,
        given.splits,
        batch_size,
        given.parent,
        places,
        given.baseline,
        counts=given.counts,
        passes=passes,
        taking=given.taking,
        trial=given.trial,
        on_shards=given.on_shards,
    )
    return found.with_recipe(given.recipe, given.hold_out, given.segment)
