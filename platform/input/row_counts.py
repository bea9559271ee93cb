"""How many rows each split gives: what batch size, workers, shards, passes, windows and estimates go by."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple

from ...warehouse.entries import Split
from ..cores import cores
from ..engines.base import Scan
from ..errors import StatementError
from .hold_out import HeldOut
from .splits import CHUNK_ROWS, is_empty

SAMPLED_SPLITS, SAMPLED_ROWS = 16, 1 << 13


class RowCounts(NamedTuple):
    """How many rows each split gives.

    Attributes:
        rows: of each split, in order.
        exact: they were counted, or no filter drops any; else a sample tells about how many there are.
        seconds: how long it took to read what counts them.
    """

    rows: tuple[int, ...]
    exact: bool
    seconds: float = 0.0

    @property
    def total(self) -> int:
        """The rows of all splits."""
        return sum(self.rows)


def counted(scan: Scan, splits: Sequence[Split], column: str, whose: str = "") -> tuple[list[Split], RowCounts]:
    """Return those of some splits of a scan that give rows, and how many they give.

    Rows that filters leave are counted by reading one column; where that takes long, the beginnings of some splits tell the
    share of rows that is left.

    Args:
        column: of the result, which is read.
        whose: which rows the scan takes of the query's, as it follows "rows".

    Raises:
        StatementError: there are no rows.
        DataError: a split cannot be read.
    """
    splits, counts = _counted(scan, splits, column)
    if not splits:
        raise StatementError(f"The query returns no rows{whose}; there is nothing to learn from.")
    return splits, counts


def _counted(scan: Scan, splits: Sequence[Split], column: str) -> tuple[list[Split], RowCounts]:
    splits = [split for split in splits if split.rows]
    declared = tuple(split.rows for split in splits)
    if scan.exact:
        return splits, RowCounts(declared, True)
    if sum(declared) > scan.most_counted:
        return sampled(scan, splits, column)
    begun = time.perf_counter()
    rows = count(scan, splits, column)
    left = [number for number, found in enumerate(rows) if found]
    seconds = time.perf_counter() - begun
    return [splits[number] for number in left], RowCounts(tuple(rows[number] for number in left), True, seconds)


def count(scan: Scan, splits: Sequence[Split], column: str) -> tuple[int, ...]:
    """Return how many rows each split gives; one column of all is read."""

    def of_split(split: Split) -> int:
        return sum(table.num_rows for table in scan.read(split, [column], CHUNK_ROWS))

    with ThreadPoolExecutor(cores()) as pool:
        return tuple(pool.map(of_split, splits))


def sampled(scan: Scan, splits: Sequence[Split], column: str) -> tuple[list[Split], RowCounts]:
    """Return the splits, and about how many rows they give, by the beginnings of some of them."""
    chosen = sorted({len(splits) * i // SAMPLED_SPLITS for i in range(SAMPLED_SPLITS)}) if splits else []
    read = left = 0
    for split in (splits[number] for number in chosen):
        read += min(split.rows, SAMPLED_ROWS)
        with closing(scan.read(split, [column], SAMPLED_ROWS)) as tables:
            left += table.num_rows if (table := next(tables, None)) is not None else 0
    if not left and is_empty(scan, splits):
        return [], RowCounts((), True)
    share = min(1.0, max(left, 1) / max(read, 1))
    return list(splits), RowCounts(tuple(max(1, round(split.rows * share)) for split in splits), False)


def left_by(scan: HeldOut, splits: Sequence[Split], given: RowCounts) -> RowCounts:
    """Return how many rows of each split a hold-out leaves.

    Args:
        given: how many rows each split has with those that are held out.
    """
    return given._replace(rows=scan.left(splits, given.rows))
