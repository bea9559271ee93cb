"""A version over the images of one before it: the rows that differ, in memory, so that nothing of a whole model is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from ..ps._native import Image
from ..ps.messages import Keys
from .image import ImageWeights, MappedRows
from .layout import Bytes, RowColumn, in_memory, placed
from .tables import Floats, floats_of, training_of

if TYPE_CHECKING:
    from ...warehouse.version import Version

MOST_SHARE = 0.1
"""Of a base's rows, the share that may differ; a version that differs more gets images of its own."""


def overlaid(version: Version, bases: Sequence[MappedRows]) -> ImageWeights | None:
    """Return the parameters of a version over the images of another one.

    Returns:
        None where it has other tables, or differs in more rows than pay.
    """
    known = [(column.table, column.column, column.floats) for base in bases for column in base.layout.columns]
    entries = version.manifest.tables
    if sorted(known) != sorted(
        (table.name, name, floats) for table in entries for name, floats in shown(table.columns, table.dim)
    ):
        return None
    overs = []
    for base in bases:
        changed = changed_keys(version, base)
        if changed is None:
            return None
        overs.append(over(version, base, changed) if len(changed) else None)
    return ImageWeights(version, bases, overs)


def shown(columns: Mapping[str, int], dim: int) -> list[tuple[str, int]]:
    return [("w", dim), *((name, floats) for name, floats in columns.items() if name == "offered" and floats)]


def changed_keys(version: Version, base: MappedRows) -> Keys | None:
    """Return the keys whose rows are others than in an image, ascending: changed, new, or gone; None where these are many."""
    most, image = MOST_SHARE * base.layout.rows, Image(base.memory)
    found: list[Keys] = [np.empty(0, np.uint64)]
    first, count, met = base.layout.columns[0], 0, 0
    every: list[Keys] = []
    for column, _, keys, floats in floats_of(version, base.layout.columns):
        state = image.differing(keys, column.first, rounded(floats, base))
        differs = keys[state > 0]
        found.append(differs)
        if (count := count + len(differs)) > most * len(base.layout.columns):
            return None
        if column == first:
            met += int(np.count_nonzero(state < 2))
            every.append(keys)
    if met < base.layout.rows:
        held = base.layout.keys(base.memory)
        held = held[held != base.layout.absent].view(np.uint64)
        found.append(np.setdiff1d(held, np.concatenate([np.empty(0, np.uint64), *every])))
    changed = np.unique(np.concatenate(found))
    return None if len(changed) > most or (changed == np.int64(base.layout.absent).view(np.uint64)).any() else changed


def rounded(floats: Floats, base: MappedRows) -> Floats:
    """Return floats as an image has them."""
    return floats.astype(np.float16).astype(np.float32) if base.layout.half else floats


def over(version: Version, base: MappedRows, keys: Keys) -> Bytes:
    """Return the rows that a version has for some keys, as a file of rows in memory; zeros for those that it has not."""
    rows = np.zeros((len(keys), base.layout.width), base.layout.dtype)
    for column, _, own, floats in floats_of(version, base.layout.columns):
        take(rows, column, keys, own, floats)

    def fill(place: NDArray[np.int64], to: NDArray[Any]) -> None:
        to[place] = rows

    try:
        layout, place = placed(keys, base.layout.columns, base.layout.half, base.layout.absent, training_of(version))
    except ModelError as error:
        raise ModelError(f"The rows of {version.folder} that changed cannot be laid: {error}") from error
    return in_memory(layout, keys, place, fill)


def take(rows: NDArray[Any], column: RowColumn, keys: Keys, own: Keys, floats: Floats) -> None:
    """Put floats of rows whose keys are among those wanted, ascending, in their places."""
    place = np.searchsorted(keys, own).clip(max=len(keys) - 1)
    mine = np.flatnonzero(keys[place] == own)
    rows[place[mine], column.first : column.first + column.floats] = floats[mine]
