"""A training by another package: the query's rows become a matrix in this process, and the package's model a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...warehouse.package import read_package, write_package
from ..cores import cores
from ..ps.moments import no_moments
from ..ps.shard import Description
from .batches import Batch
from .examples import Features, batches_of, features_of, united
from .matrix import TABLE, column_names, joined, matrix_of
from .monitor import Monitor
from .prepared import Prepared
from .slots import CATEGORICAL
from .state import Held
from .whole import Columns, found_in, rows_of, stored_rows, write

if TYPE_CHECKING:
    from ...warehouse.draft import Draft


def learn_by_package(prepared: Prepared, draft: Draft, monitor: Monitor) -> Held:
    """Number the categories, let the package learn, write both, and measure the model on the rows that it learned from.

    Raises:
        DataError: see encode and check.
    """
    learner, columns = prepared.recipe.algorithm.learner, prepared.columns
    assert learner is not None
    names, parent = column_names(columns), prepared.parent
    batches = [batch for split in range(len(prepared.splits)) for batch in batches_of(prepared, split)]
    features, _ = united([features_of(batch) for batch in batches])
    categorical = {slot.number for slot in columns.of_kind(CATEGORICAL)}
    features = features.only(np.isin(features.slots, list(categorical)))
    before = stored_rows(parent, TABLE)
    numbers = numbered(features, before, learner.categories)
    parts = [matrix_of(batch, numbers_of(batch, features, numbers), names) for batch in batches]
    matrix = joined(parts)
    known = read_package(parent.package) if parent is not None else None
    model = learner.fit(matrix, prepared.plan.settings.seed, cores(), known)
    write_package(draft.package, model)
    predict = learner.load(model)
    for part in parts:
        monitor.metrics.add(part.label, predict(part))
    kept = features.only(numbers > 0)
    saved = write(draft, rows_of(kept, numbers[numbers > 0][:, None].astype(np.float64), before))
    now = int(features.last_seen.max(initial=0))
    return Held(saved, Description(saved.rows, 0, now, {}, no_moments(len(columns.scaled)), saved.min_weight, saved.max_weight))


def numbers_of(batch: Batch, features: Features, numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the numbers of a batch's rows, float32[size]; 0 where one has none."""
    known, place = found_in(features.keys, batch.keys)
    own = np.zeros(batch.size, np.float32)
    if known.any():
        own[: len(known)] = np.where(known, numbers[place], 0)
    return own


def numbered(features: Features, before: Columns, most: int) -> NDArray[np.float32]:
    """Return the number of each feature among its slot's categories, from 1 on; 0 for those beyond `most`.

    The more frequent comes first, among equals the lesser key. Categories that a version before has keep their numbers.
    """
    numbers = np.zeros(len(features.keys), np.float32)
    known, place = found_in(before["key"], features.keys)
    if known.any():
        numbers[known] = before["w"][place[known], 0]
    for slot in np.unique(features.slots):
        taken = 0
        if len(before["key"]):
            taken = int(before["w"][before["slot"] == slot, 0].max(initial=0))
        new = np.flatnonzero((features.slots == slot) & ~known)
        order = new[np.argsort(-features.counts[new], kind="stable")][: max(0, most - taken)]
        numbers[order] = np.arange(taken + 1, taken + 1 + len(order))
    return numbers
