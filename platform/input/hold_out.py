"""Hold-out rows of a scan for validation: a share of them, or the last ones."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...warehouse.entries import Split
from ..engines.base import Bounds, Scan
from ..engines.repeats import expanded
from ..engines.staging import starts_of

GOLDEN, FIRST, SECOND = (np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
SPLIT_BITS = np.uint64(40)


@dataclass(frozen=True)
class HeldOut:
    """Some rows of a scan: the rows to learn, or the rows held out; see Scan.

    A row is identified by its split and its number among the rows that filters leave of the split. So it is held out in every
    pass, with any number of workers, and after RESUME.

    Attributes:
        scan: gives all rows.
        share: the share of rows held out.
        numbers: split -> its number.
        rows: how many rows each split of the scan gives.
        last: whether the last rows in order of learning are held out; else rows whose hash falls into the share.
        held: these are the rows held out.
    """

    scan: Scan
    share: float
    numbers: dict[Split, int]
    rows: tuple[int, ...]
    last: bool
    held: bool

    @property
    def schema(self) -> pa.Schema:
        return self.scan.schema

    @property
    def staged(self) -> bool:
        return self.scan.staged

    @property
    def bounded(self) -> bool:
        return self.scan.bounded

    @property
    def exact(self) -> bool:
        """Whether a split gives as many rows as it declares: not here."""
        return False

    @property
    def others(self) -> HeldOut:
        """The other rows of the scan."""
        return HeldOut(self.scan, self.share, self.numbers, self.rows, self.last, not self.held)

    @property
    def most_counted(self) -> int:
        return self.scan.most_counted

    @property
    def num_rows(self) -> int:
        """How many rows it gives."""
        return sum(self.left(list(self.numbers), self.rows))

    def left(self, splits: Sequence[Split], rows: Sequence[int]) -> tuple[int, ...]:
        """Return how many of the rows of each of some splits these are.

        Args:
            rows: how many rows the scan gives of each.
        """
        numbers = [self.numbers[split] for split in splits]
        chosen = (self._chosen(number, 0, count) for number, count in zip(numbers, rows, strict=True))
        return tuple(int(np.count_nonzero(some)) for some in chosen)

    def splits(self) -> list[Split]:
        """List the splits of the scan."""
        return self.scan.splits()

    def read(self, split: Split, wanted: Sequence[str], rows: int) -> Generator[pa.Table, None, None]:
        """Read a split, without the other rows."""
        number, row = self.numbers[split], 0
        for table in self.scan.read(split, wanted, rows):
            yield expanded(table).filter(pa.array(self._chosen(number, row, row + table.num_rows)))
            row += table.num_rows

    def check(self, split: Split) -> None:
        """Refuse a split that changed."""
        self.scan.check(split)

    def bounds(self, splits: Sequence[Split], column: str) -> Iterator[Bounds]:
        """Yield the statistics of a column, over all rows."""
        return self.scan.bounds(splits, column)

    def describe(self) -> str:
        """Return how the scan is read."""
        return self.scan.describe()

    def entry(self) -> dict[str, Any]:
        """Return what a manifest keeps of the scan."""
        return self.scan.entry()

    def over(self, splits: Sequence[Split]) -> HeldOut:
        """Return the same scan over splits that were listed before."""
        return HeldOut(self.scan.over(splits), self.share, self.numbers, self.rows, self.last, self.held)

    def _chosen(self, number: int, start: int, stop: int) -> NDArray[np.bool_]:
        """Return which of the rows start:stop of a split these are, bool[stop - start]."""
        if self.last:
            learned = round(sum(self.rows) * (1 - self.share)) - sum(self.rows[:number])
            held = np.arange(start, stop) >= learned
        else:
            held = drawn(number, start, stop) < self.share
        return held if self.held else ~held


def held_out(scan: Scan, splits: Sequence[Split], rows: Sequence[int], share: float, last: bool) -> HeldOut:
    """Return the rows of a scan that are left to learn from.

    Args:
        rows: how many rows each split gives; exactly where the last are held out.
    """
    numbers = {split: number for number, split in enumerate(splits)}
    return HeldOut(scan, share, numbers, tuple(rows), last, held=False)


def share_of_users(scan: Scan, splits: Sequence[Split], rows: Sequence[int], share: float, user: str) -> float:
    """Return the share of the rows of whole users among the last ones, about as given; rows of a user are side by side in one
    split.

    Args:
        rows: how many rows each split gives, exactly.
    """
    total, before = sum(rows), 0
    first = round(total * (1 - share))
    for split, count in zip(splits, rows, strict=True):
        if before <= first < before + count:
            users = pa.concat_tables(scan.read(split, [user], count)).column(0)
            others = [row for row in starts_of(users).tolist() if row + before] or [first - before]
            first = before + min(others, key=lambda row: abs(row + before - first))
            break
        before += count
    return 1 - first / total


def beginning_of(scan: Scan, splits: Sequence[Split], rows: Sequence[int], share: float) -> tuple[HeldOut, list[Split]]:
    """Return the first rows of a scan, a share of all, and the splits that have them.

    Args:
        rows: how many rows each split gives.
    """
    wanted = count = 0
    while wanted < len(rows) and count < sum(rows) * share:
        count += rows[wanted]
        wanted += 1
    numbers = {split: number for number, split in enumerate(splits)}
    return HeldOut(scan, 1 - share, numbers, tuple(rows), last=True, held=False), list(splits[:wanted])


def drawn(number: int, start: int, stop: int) -> NDArray[np.float64]:
    """Return a number in [0, 1) of each of some rows of a split, float64[stop - start], by a hash of its position.

    Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014, splitmix64.
    """
    place = (np.uint64(number) << SPLIT_BITS) + np.arange(start, stop, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = (place + np.uint64(1)) * GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * SECOND
    return (mixed ^ (mixed >> np.uint64(31))) * 2.0**-64
