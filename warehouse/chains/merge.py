"""Merge-on-read of a chain: the row of each key in the newest version that has one, unless a tombstone follows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..checksums import NUM_SLICES
from ..rows import keys_of, read_rows, slices_of
from .links import ChainLink

if TYPE_CHECKING:
    from ...platform.ps._native import Store

WINDOW_ROWS = 1 << 24
"""Changed rows whose keys are deduplicated in memory at once."""
MISSING = np.uint32(0xFFFFFFFF)


def merged(
    links: Sequence[ChainLink], table: str, columns: Sequence[str] | None, slices: range | None
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a table of a chain, in no order; see read_rows.

    Args:
        slices: whose rows are read; None: all.

    Raises:
        ModelError: a file is damaged, or went while it was read.
    """
    for window in windows(links, table, slices, WINDOW_ROWS):
        seen = new_keys()
        yield from changed(links[1:], table, columns, window, seen)
        for batch in keyed(links[0], table, columns, window):
            yield from chosen(batch, seen.lookup(keys_of(batch)) == MISSING, columns, window)


class ChainStep(NamedTuple):
    """Something that a version of a chain did to a table: it has these rows, each in place of the one of its key, or keys are
    gone."""

    table: str
    batch: pa.RecordBatch
    gone: bool


def replayed(
    links: Sequence[ChainLink], tables: Mapping[str, Sequence[str] | None], slices: range | None
) -> Iterator[ChainStep]:
    """Read what the versions of a chain did, the oldest first, for readers that keep rows by key.

    Args:
        tables: the columns that are read of each; None: all.

    Raises:
        ModelError: a file is damaged, or went while it was read.
    """
    for link in links:
        for table in tables:
            for batch in read_rows(link.parts(f"tombstones/{table}"), None, slices):
                yield ChainStep(table, batch, True)
        for table, columns in tables.items():
            for batch in read_rows(link.parts(f"rows/{table}"), columns, slices):
                yield ChainStep(table, batch, False)


def changed(
    links: Sequence[ChainLink], table: str, columns: Sequence[str] | None, window: range, seen: Store
) -> Iterator[pa.RecordBatch]:
    """Read the newest rows of the keys that delta versions have; afterwards `seen` has all keys that they changed or
    removed."""
    for link in reversed(links):
        for batch in keyed(link, table, columns, window):
            yield from chosen(batch, seen.insert(keys_of(batch))[1], columns, window)
        for batch in read_rows(link.parts(f"tombstones/{table}"), None, window):
            seen.insert(keys_of(batch))


def new_keys() -> Store:
    """Return an empty set of keys."""
    from ...platform.ps._native import Store  # a library, which few statements need

    return Store([])


def keyed(link: ChainLink, table: str, columns: Sequence[str] | None, window: range) -> Iterator[pa.RecordBatch]:
    """Read the rows of one version of a chain, their keys first."""
    names = None if columns is None else ["key", *(name for name in columns if name != "key")]
    return read_rows(link.parts(f"rows/{table}"), names, None if len(window) == NUM_SLICES else window)


def chosen(
    batch: pa.RecordBatch, mask: NDArray[np.bool_], columns: Sequence[str] | None, window: range
) -> Iterator[pa.RecordBatch]:
    """Yield a window's rows among some rows of a batch, if there are any."""
    if len(window) < NUM_SLICES:
        at = slices_of(batch)
        mask = mask & (at >= window.start) & (at < window.stop)
    rows = batch if mask.all() else batch.filter(pa.array(mask))
    if rows.num_rows:
        yield rows if columns is None else rows.select(list(columns))


def windows(links: Sequence[ChainLink], table: str, slices: range | None, most: int) -> list[range]:
    """Cut slices into runs in which delta versions have at most about so many rows."""
    slices = range(NUM_SLICES) if slices is None else slices
    rows = sum(part.file.rows for link in links[1:] for part in link.parts(f"rows/{table}") if part.file is not None)
    count = max(1, min(len(slices), -(-rows * len(slices) // (NUM_SLICES * most))))
    bounds = [len(slices) * i // count for i in range(count + 1)]
    return [slices[start:stop] for start, stop in itertools.pairwise(bounds)]
