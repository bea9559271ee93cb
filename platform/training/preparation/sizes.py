"""Stage sizes: examples of a batch, passes, shards and workers."""

from __future__ import annotations

from ....warehouse.manifest import Manifest
from ..parallelism import Places, Sizes, decide, places_of
from .base import Preparation, Stage


def rows(given: Preparation) -> Preparation:
    """Decide by the rows that are learned, or take what an interrupted training ran with."""
    plan, algorithm = given.plan, given.recipe.algorithm
    if given.resumed is not None:
        sizes = given.resumed.sizes
        passes = sizes.passes or plan.settings.passes or 1
        return given.having(sizes=Sizes(sizes.batch_size, passes, places_again(given, given.resumed)))
    offers = bool(given.columns.offered)
    return given.having(sizes=decide(plan, algorithm, given.counts.rows, given.places, offers, given.tasks))


def places_again(given: Preparation, manifest: Manifest) -> Places:
    """Return as many shards and workers as there were, or as many as there is room for where the statement does not say."""
    before, settings = Places(manifest.sizes.shards, manifest.sizes.workers), given.plan.settings
    if given.tasks is None or sum(before) <= given.tasks.slots(sum(before), settings.together):
        return before
    return places_of(settings, given.tasks, given.recipe.algorithm.serves)


STAGE = Stage(rows=rows)
