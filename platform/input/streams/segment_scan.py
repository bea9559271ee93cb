"""The scan of a stream's splits: the splits are given, and another scan reads them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import pyarrow as pa

from ....warehouse.entries import Split
from ...engines.base import Bounds


class Reading(Protocol):
    """How one split of a stream is read, as in Scan."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def exact(self) -> bool: ...

    def read(self, split: Split, wanted: Sequence[str], rows: int) -> Generator[pa.Table, None, None]: ...

    def check(self, split: Split) -> None: ...

    def bounds(self, splits: Sequence[Split], column: str) -> Iterator[Bounds]: ...


@runtime_checkable
class NotingReading(Reading, Protocol):
    """A reading that records what it skips, once the version that learns has a folder."""

    def beside(self, folder: Path) -> Self: ...


def any_columns(splits: Sequence[Split]) -> None:
    """Refuse nothing: a row that lacks columns is refused when it is read."""


@dataclass(frozen=True)
class SegmentScan:
    """Splits in the order of a version's log; see Scan.

    Attributes:
        reading: how one is read.
        pieces: the splits.
        admit: refuses later splits whose columns differ from those that are read.
    """

    reading: Reading
    pieces: tuple[Split, ...]
    admit: Callable[[Sequence[Split]], None] = any_columns

    @property
    def schema(self) -> pa.Schema:
        """The result's columns."""
        return self.reading.schema

    @property
    def staged(self) -> bool:
        """Nothing is written: splits are read where they are."""
        return False

    @property
    def bounded(self) -> bool:
        """The splits are all that the training reads."""
        return True

    @property
    def exact(self) -> bool:
        """Whether no filter drops rows."""
        return self.reading.exact

    @property
    def most_counted(self) -> int:
        """None: messages come once, and are decoded as wholes."""
        return 0

    def splits(self) -> list[Split]:
        """List the splits that have rows."""
        return [split for split in self.pieces if split.rows]

    def read(self, split: Split, wanted: Sequence[str], rows: int) -> Generator[pa.Table, None, None]:
        """Read a split."""
        return self.reading.read(split, wanted, rows)

    def check(self, split: Split) -> None:
        """Refuse a split that has changed."""
        self.reading.check(split)

    def bounds(self, splits: Sequence[Split], column: str) -> Iterator[Bounds]:
        """Yield the statistics of a column of some splits."""
        return self.reading.bounds(splits, column)

    def describe(self) -> str:
        """Return how many splits there are, and how they are read."""
        how = "" if self.exact else ", expressions and filters evaluated piece by piece"
        return f"a stream, what is new read in place{how}: {len(self.splits())} splits"

    def entry(self) -> dict[str, Any]:
        """Return nothing: RESUME makes it again from the statement and the log."""
        return {}

    def beside(self, folder: Path) -> SegmentScan:
        """Return the same scan, which records beside a version what it skips."""
        return replace(self, reading=self.reading.beside(folder)) if isinstance(self.reading, NotingReading) else self

    def over(self, splits: Sequence[Split]) -> SegmentScan:
        """Return the same scan over other splits of the stream."""
        return replace(self, pieces=tuple(splits))
