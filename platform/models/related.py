"""ML.RELATED: what a model has learned about pairs of items, as a table of their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.augments.pairs import HALF, LOWER, pairs_of
from ...algorithms.graphs.limbs import PAIRS
from ..errors import StatementError
from ..input.columns import columns_from
from ..input.slot import Slot
from ..input.slots import matched
from ..input.vocabulary import keys_of
from ..scoring.weights import WEIGHTS, stored
from ..training.recipe import algorithm_of

if TYPE_CHECKING:
    from ...warehouse.version import Version


def related(version: Version, item: Slot, history: Slot, catalogue: pa.Table) -> pa.Table:
    """Return the pairs whose weight is not 0: item, related and score, an item's best first.

    Args:
        item, history: the slots that `slots_of` gives.
        catalogue: has a column of the item slot's name; pairs of other items are left out.

    Raises:
        StatementError: the catalogue lacks the column, or has it as another kind.
    """
    (own,) = matched(columns_from(version.manifest), catalogue.schema, [item.name]).values()
    names = catalogue.column(own).combine_chunks().unique().drop_null()
    table = PAIRS if has_pairs(version) else WEIGHTS
    weight, key = stored(version, table)
    found, related_at = halves_in(key >> HALF, keys_of(names, item) >> HALF)
    had, item_at = halves_in(key & LOWER, keys_of(names, history) >> HALF)
    kept = np.flatnonzero(found & had & (weight != 0))
    order = kept[np.lexsort((-weight[kept], item_at[kept]))]
    columns = [names.take(item_at[order]), names.take(related_at[order]), pa.array(weight[order].astype(np.float64))]
    return pa.table(columns, names=["item", "related", "score"])


def slots_of(version: Version) -> tuple[Slot, Slot]:
    """Return the slots of items and histories.

    Raises:
        StatementError: the model does not learn pairs.
    """
    found, columns = pairs_of(algorithm_of(version.manifest).learns), columns_from(version.manifest)
    if has_pairs(version):
        return columns.scalar[0], columns.scalar[0]
    if not found:
        name = version.manifest.algorithm.name
        raise StatementError(
            f"ML.RELATED lists pairs of items, and {name} has none. Use slrm, swing, common_neighbours, or xsvd (slim = true)."
        )
    return columns.scalar[found[0].item], columns.bags[found[0].history]


def has_pairs(version: Version) -> bool:
    """Return whether the rows of a version are pairs of vertices."""
    return [table.name for table in version.manifest.tables] == [PAIRS]


def halves_in(halves: NDArray[np.uint64], known: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Return which halves of keys are among known ones, and where."""
    if not len(known):
        return np.zeros(len(halves), np.bool_), np.zeros(len(halves), np.intp)
    order = np.argsort(known)
    place = order[np.minimum(np.searchsorted(known, halves, sorter=order), len(known) - 1)]
    return known[place] == halves, place
