"""Overlays: a version as the images of an earlier one and, in memory, the rows that differ, so that no whole model is
written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..ps._native import Image
from ..ps.messages import OFFERED, Keys
from .image import ImageWeights, MappedRows, Report, folders_of, found_images, make_images
from .layout import Bytes, in_memory, placed
from .tables import Floats, fill_from, floats_of, training_of, unseen

if TYPE_CHECKING:
    from ...warehouse.version import Version

MOST_SHARE = 0.1
"""Of a base's rows, the share that may differ; a version that differs more gets images of its own."""


def weights_of(version: Version, half: bool, bases: Sequence[MappedRows], report: Report) -> ImageWeights:
    """Return the parameters of a version: from images that are there, over the images of another one, or from its own."""
    found = ready(version, half, bases, report)
    return made(version, half, bases, report) if found is None else found


def made(version: Version, half: bool, bases: Sequence[MappedRows], report: Report) -> ImageWeights:
    """Return the parameters of a version that is not ready: over the images of another one, or from images that are made."""
    overs = overs_of(version, bases) if bases else None
    if overs is not None:
        return ImageWeights(version, bases, overs)
    images = make_images(version, half, report)
    return ImageWeights(version, images, [None] * len(images))


def ready(version: Version, half: bool, bases: Sequence[MappedRows], report: Report) -> ImageWeights | None:
    """Return the parameters of a version from its images: those that are mapped, where they are its own, or those that it has.

    Returns:
        None where there are none.
    """
    own = {folder / base.path.name for folder in folders_of(version, half) for base in bases if base.path is not None}
    mapped = bool(bases) and all(b.path in own and b.layout.training == training_of(version) for b in bases)
    found = bases if mapped else found_images(version, half, report)
    return None if found is None else ImageWeights(version, found, [None] * len(found))


def overs_of(version: Version, bases: Sequence[MappedRows]) -> list[Bytes | None] | None:
    """Return what a version has to lay over each of the images of another one, None where it is nothing.

    Returns:
        None where it has other tables, or differs in more rows than pay.
    """
    rows, of_base = version.manifest.learned.rows, bases[0].layout.rows
    if abs(rows - of_base) > MOST_SHARE * of_base or not same_tables(version, bases):
        return None
    overs: list[Bytes | None] = []
    for base in bases:
        changed = changed_keys(version, base, MOST_SHARE)
        if changed is None:
            return None
        overs.append(over(version, base, changed) if len(changed) else None)
    return overs


def same_tables(version: Version, bases: Sequence[MappedRows]) -> bool:
    """Return whether images have all columns that images of a version would have."""
    known = {(column.table, column.column, column.floats) for base in bases for column in base.layout.columns}
    wanted = {(table.name, "w", table.dim) for table in version.manifest.tables}
    offered = {(t.name, OFFERED, t.columns[OFFERED]) for t in version.manifest.tables if OFFERED in t.columns}
    return known == wanted | offered


def changed_keys(version: Version, base: MappedRows, share: float) -> Keys | None:
    """Return the keys whose rows differ from an image, ascending: changed, new, or removed.

    Returns:
        None where these are more than a share of its rows.

    Raises:
        ModelError: the image was cut off meanwhile.
    """
    most, image = share * base.layout.rows, Image(base.memory)
    found: list[Keys] = [np.empty(0, np.uint64)]
    count, every = 0, dict[str, list[Keys]]()
    for column, _, keys, floats in floats_of(version, base.layout.columns):
        state = image.differing(keys, column.first, rounded(floats, base))
        differs = keys[state > 0]
        found.append(differs)
        if (count := count + len(differs)) > most * len(base.layout.columns):
            return None
        if column.column == "w":
            every.setdefault(column.table, []).append(keys[state < 2])
    for table in dict.fromkeys(column.table for column in base.layout.columns):
        there = np.concatenate([np.empty(0, np.uint64), *every.get(table, ())])
        if len(there) < base.layout.rows:
            held = base.layout.keys(base.memory)
            found.append(np.setdiff1d(held[held != base.layout.absent].view(np.uint64), there))
    base.check()
    changed = np.unique(np.concatenate(found))
    return None if len(changed) > most or (changed == np.int64(base.layout.absent).view(np.uint64)).any() else changed


def rounded(floats: Floats, base: MappedRows) -> Floats:
    """Return floats as an image has them."""
    return floats.astype(np.float16).astype(np.float32) if base.layout.half else floats


def over(version: Version, base: MappedRows, keys: Keys) -> Bytes:
    """Return the rows that a version has for some keys, as a file of rows in memory; zeros for keys that it lacks."""
    layout, place = placed(keys, base.layout.columns, base.layout.half, base.layout.absent, training_of(version))
    return in_memory(layout, keys, place, fill_from(version, base.layout.columns, unseen, keys))
