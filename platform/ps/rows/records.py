"""The records of rows: a key and typed columns, laid out as the native store has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base import ColumnTypes

KEY_BYTES = 8
DTYPES = ("float32", "uint32", "uint16")  # wide ones first, so that each is aligned
KEY = "key"


class RecordFields:
    """The fields of a record, and checks of arrays against them.

    Args:
        columns: name, dtype and elements per row of each.

    Attributes:
        columns: as given.
        dtype: of a record; its fields are `key` and the numbers of columns.
        row_bytes: see Rows.
        layout: see Rows.

    Raises:
        ValueError: another dtype, or no elements.
    """

    def __init__(self, columns: ColumnTypes) -> None:
        self.columns = tuple(columns)
        for name, dtype, dim in self.columns:
            if dtype not in DTYPES or dim < 1:
                raise ValueError(f"column {name} must have one of {', '.join(DTYPES)} at least once, got {dim} of {dtype}")
        at, end = {}, KEY_BYTES
        for number in sorted(range(len(self.columns)), key=lambda n: DTYPES.index(self.columns[n][1])):
            at[number] = end
            end += np.dtype(self.columns[number][1]).itemsize * self.columns[number][2]
        offsets = [at[number] for number in range(len(self.columns))]
        formats = [np.dtype((dtype, (dim,))) for _, dtype, dim in self.columns]
        names, self.row_bytes = [KEY, *map(str, range(len(self.columns)))], -(-end // 8) * 8
        self.dtype = np.dtype(
            {"names": names, "formats": [np.dtype(np.uint64), *formats], "offsets": [0, *offsets], "itemsize": self.row_bytes}
        )
        self.layout = [(*column, offset) for column, offset in zip(self.columns, offsets, strict=True)]

    def column(self, number: int) -> tuple[str, str, int]:
        """Return the name, dtype and elements of a column.

        Raises:
            IndexError: there is none of this number.
        """
        if not 0 <= number < len(self.columns):
            raise IndexError(f"column {number} does not exist, there are {len(self.columns)}")
        return self.columns[number]

    def fitting(self, columns: Sequence[int], arrays: Sequence[NDArray[Any]], n: int) -> list[NDArray[Any]]:
        """Return arrays of columns as [n or more, dim], in the same memory."""
        if len(columns) != len(arrays):
            raise ValueError(f"expected one array for each of {len(columns)} columns, got {len(arrays)}")
        fitting = []
        for column, given in zip(columns, map(np.asarray, arrays), strict=True):
            name, dtype, dim = self.column(column)
            if given.dtype != dtype:
                raise TypeError(f"{name} must be {dtype}[{n}, {dim}], got {given.dtype}{list(given.shape)}")
            whole = given[:, np.newaxis] if given.ndim == 1 and dim == 1 else given
            if whole.ndim != 2 or len(whole) < n or whole.shape[1] != dim:
                raise ValueError(f"{name} must be {dtype}[{n}, {dim}], got {given.dtype}{list(given.shape)}")
            fitting.append(whole)
        return fitting

    def inputs(self, number: int, given: NDArray[Any], n: int) -> NDArray[Any]:
        """Return the memory of a program's input as [rows, dim] of a column's type.

        Raises:
            TypeError, ValueError: see Rows.gather_into.
        """
        name, dtype, dim = self.column(number)
        if given.nbytes != len(given) * np.dtype(dtype).itemsize * dim:
            raise TypeError(f"input {name} does not match its column")
        if n > len(given):
            raise ValueError(f"the arguments have {len(given)} rows, got {n}")
        return given.view(dtype).reshape(len(given), dim)

    def counters(
        self, columns: Sequence[int], values: Sequence[int | NDArray[np.uint32]], n: int
    ) -> list[tuple[int, NDArray[np.uint32]]]:
        """Return counters, and what each row's is changed by, uint32[n]."""
        for name, dtype, dim in map(self.column, columns):
            if (dtype, dim) != ("uint32", 1):
                raise TypeError(f"column {name} must be uint32 of dim 1 to be counted in")
        whole = [np.broadcast_to(np.asarray(value, np.uint32), n) for value in values]
        return list(zip(columns, whole, strict=True))

    def of(self, records: NDArray[np.uint8]) -> NDArray[Any]:
        """Return records uint8[n, row_bytes] as n of the dtype, in the same memory."""
        return records.view(self.dtype)[:, 0]

    def check(self, records: NDArray[np.uint8]) -> None:
        """Require records of these fields."""
        if records.ndim != 2 or records.shape[1] != self.row_bytes:
            raise ValueError(f"records must be uint8[n, {self.row_bytes}], got {records.dtype}{list(records.shape)}")


def check_listed(values: NDArray[Any], name: str, dtype: type[np.generic]) -> None:
    """Require an array with one dimension.

    Raises:
        TypeError: it is of another dtype.
        ValueError: it does not have exactly one dimension.
    """
    if values.dtype != dtype:
        raise TypeError(f"{name} must be a C-contiguous array {np.dtype(dtype)}[n], got {values.dtype}{list(values.shape)}")
    if values.ndim != 1 or not values.flags.c_contiguous:
        raise ValueError(f"{name} must be a C-contiguous array {np.dtype(dtype)}[n], got {values.dtype}{list(values.shape)}")
