"""What a table asks of whatever holds its rows: the native store, a dict (reference.py), or memory of a device.

Rows are records of typed columns by 64-bit key, numbered; a row keeps its number until it is evicted. Nothing here knows any
mathematics. `tests/ps/rows_suite.py` is the contract as checks, which every implementation passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._native import Arguments

ColumnTypes: TypeAlias = Sequence[tuple[str, str, int]]
"""Name, dtype ("float32", "uint32" or "uint16") and elements per row of each column."""

MISSING = np.uint32(0xFFFFFFFF)
"""Stands for the row of a key that has none: it reads as zeros and is not written."""


class Rows(Protocol):
    """Rows by key. One writer at a time (begin_snapshot and take are writers, too), and no reader beside it.

    Arguments shared by the methods:
        keys: uint64[n].
        rows: uint32[n], from lookup or insert, or MISSING.
        column, columns: positions in the list that the rows were made with.

    Raises:
        TypeError: an array of another dtype.
        ValueError: an array of another shape.
        IndexError: a row or column that does not exist.
    """

    def __len__(self) -> int:
        """Return how many keys have a row."""
        ...

    def lookup(self, keys: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Return the rows of keys, MISSING where a key has none."""
        ...

    def insert(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
        """Return the rows of keys, and which were created, with zeros in every column."""
        ...

    def evict(self, keys: NDArray[np.uint64]) -> int:
        """Remove the rows of keys and return how many there were. Their numbers are used again."""
        ...

    def pull(self, keys: NDArray[np.uint64], arguments: Arguments) -> NDArray[np.uint32]:
        """Do lookup and gather_into at once, and return the rows."""
        ...

    def gather_into(self, rows: NDArray[np.uint32], arguments: Arguments) -> None:
        """Copy those columns that are inputs of a program, by name, and set what follows the last row to zeros.

        Raises:
            ValueError: there are more rows than arguments.
        """
        ...

    def gather(self, rows: NDArray[np.uint32], columns: Sequence[int], outs: Sequence[NDArray[Any]]) -> None:
        """Copy columns of rows into arrays, one per column, of its dtype: [n or more, dim], or [n or more] for a dim of 1.
        Elements from n on keep their values."""
        ...

    def scatter(self, rows: NDArray[np.uint32], columns: Sequence[int], values: Sequence[NDArray[Any]]) -> None:
        """Copy arrays, shaped as in gather, into columns of rows; of a row that stands twice the last value stays."""
        ...

    def update(
        self,
        rows: NDArray[np.uint32],
        columns: Sequence[int],
        values: Sequence[NDArray[Any]],
        added: Sequence[int],
        amounts: Sequence[int | NDArray[np.uint32]],
        raised: Sequence[int],
        least: Sequence[int | NDArray[np.uint32]],
    ) -> None:
        """Set columns as scatter does, add to counters and raise others.

        Args:
            columns, values: as in scatter.
            added, amounts: uint32 columns of dim 1 and what is added to them; a sum beyond 2^32 - 1 stays there.
            raised, least: such columns and what they are at least afterwards.
        """
        ...

    def keys(self, slice_begin: int = 0, slice_end: int = 1024) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Return the keys of a range of slices (the top ten bits of a key), ascending, and their rows.

        Raises:
            ValueError: it is no range of slices.
        """
        ...

    def scan(self, begin: int, end: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Return the keys and numbers of the rows present among numbers [begin, end), in order of number."""
        ...

    def begin_snapshot(self, full: bool, reader: int = 0) -> tuple[NDArray[np.uint64], bool]:
        """Begin to take the rows as they are now, while they go on changing.

        Args:
            full: of all rows; else of rows written or created since the previous snapshot for the same reader began.
            reader: 0 or 1, each of whom has changes of their own.

        Returns:
            The keys evicted since the snapshot before began, some of which may have rows again; none where this one is full.
            And whether it is full: the first is, and the one after a cancelled snapshot; others may be.

        Raises:
            RuntimeError: one is being taken.
        """
        ...

    def pending(self, reader: int) -> int:
        """Return how many rows an incremental snapshot for a reader would have."""
        ...

    def take(self, outs: NDArray[np.uint8]) -> int:
        """Copy records of the snapshot that were not taken yet into uint8[n, row_bytes], in no order, and return how many; 0
        ends it."""
        ...

    def cancel_snapshot(self) -> None:
        """Take no more of the snapshot; the next one is full. Nothing happens where none is being taken."""
        ...

    def put(self, records: NDArray[np.uint8]) -> None:
        """Put records, as `take` of rows with the same layout gives them, in place of the rows of their keys."""
        ...

    @property
    def layout(self) -> list[tuple[str, str, int, int]]:
        """Name, dtype, elements and offset in the record of each column; the key is at offset 0."""
        ...

    @property
    def kept_bytes(self) -> int:
        """Bytes of records that changed since the snapshot began, before they were taken."""
        ...

    @property
    def end(self) -> int:
        """The number after the last that a row has had."""
        ...

    @property
    def row_bytes(self) -> int:
        """Bytes of a record: key, columns, and padding to a multiple of 8."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Bytes in use."""
        ...


NewRows: TypeAlias = Callable[[ColumnTypes], Rows]
"""Makes empty rows of some columns."""
