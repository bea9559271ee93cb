"""Rows of a version as a file that other programs map, and whose arrays are constants of a graph of ONNX.

    4096 bytes  "XPSQLROW", uint32 format 1, uint32 floats of a row, uint64 rows, int64 first prime, int64 second prime,
                uint32 places of a bucket, uint32 bytes of a float, int64 absent; then zeros
    keys        int64[first prime][4], a bucket a line; `absent` in a free place; zeros to a multiple of 4096 bytes
    rows        float32 or float16 [first prime * 4 + 1][floats]; zeros in a free place, the last row is zeros

Little-endian. A key, a signed number, stands in one of two buckets, key mod first prime and key mod second prime, remainders
that are never negative; the row of place p of bucket b is 4 b + p. `absent` is a key that no row has.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from ..ps._native import place_two_choice
from ..ps.messages import Keys

HEADER = struct.Struct("<8sIIQqqIIq")
MAGIC, FORMAT, PAGE = b"XPSQLROW", 1, 4096
PLACES = 4
LOAD = 0.9
"""Of a table's places, the share that has a key; beyond 0.97 keys of two choices and four places would find none."""
GROWTH, TRIES = 1.1, 40

Rows = NDArray[np.float32]
Fill = Callable[[NDArray[np.int64], NDArray[np.generic]], None]


class RowsLayout(NamedTuple):
    """What a file of rows holds and where: see above.

    Attributes:
        rows: how many keys there are.
        primes: the first is the number of buckets.
        width: floats of a row.
        half: they are float16.
    """

    rows: int
    primes: tuple[int, int]
    width: int
    half: bool
    absent: int

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype("<f2" if self.half else "<f4")

    @property
    def places(self) -> int:
        return self.primes[0] * PLACES

    @property
    def keys_bytes(self) -> int:
        return self.places * 8

    @property
    def rows_at(self) -> int:
        """Where rows begin."""
        return PAGE + -(-self.keys_bytes // PAGE) * PAGE

    @property
    def rows_bytes(self) -> int:
        return (self.places + 1) * self.width * self.dtype.itemsize

    @property
    def header(self) -> bytes:
        size = self.dtype.itemsize
        return HEADER.pack(MAGIC, FORMAT, self.width, self.rows, *self.primes, PLACES, size, self.absent).ljust(PAGE, b"\0")


def write_rows(path: Path, keys: Keys, width: int, half: bool, absent: int, fill: Fill) -> RowsLayout:
    """Write a file of rows.

    Args:
        keys: uint64[n], distinct.
        fill: given the place of each key, int64[n], and all rows, [places + 1, width], writes those of the keys.

    Raises:
        ModelError: a key finds no place.
        OSError: the file cannot be written.
    """
    place, primes = placed(keys)
    layout = RowsLayout(len(keys), primes, width, half, absent)
    with path.open("w+b") as file:
        file.truncate(layout.rows_at + layout.rows_bytes)
        with mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:PAGE] = layout.header
            buckets = np.frombuffer(mapped, "<i8", layout.places, PAGE)
            buckets[:] = absent
            buckets[place] = keys.view(np.int64)
            rows = np.frombuffer(mapped, layout.dtype, (layout.places + 1) * width, layout.rows_at).reshape(-1, width)
            fill(place, rows)
            del buckets, rows
            mapped.flush()
    return layout


def placed(keys: Keys) -> tuple[NDArray[np.int64], tuple[int, int]]:
    """Return the places of keys and the primes, so many buckets that each key has a place.

    Raises:
        ModelError: there is none, as where keys are not hashes.
    """
    buckets = math.ceil(len(keys) / (PLACES * LOAD))
    for _ in range(TRIES):
        first = next_prime(max(buckets, 3), 1)
        second = next_prime(first - 1, -1)
        try:
            return place_two_choice(keys, first, second), (first, second)
        except ValueError:
            buckets = math.ceil(first * GROWTH) + 1
    raise ModelError("The keys of the model are no hashes: some find no place in a table of two choices.")


def next_prime(number: int, step: int) -> int:
    """Return the nearest prime from a number on, of at least 2, upwards or downwards."""
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += step
    return number


class MappedRows:
    """A file of rows, mapped.

    Raises:
        OSError: it cannot be read.
    """

    def __init__(self, path: Path, layout: RowsLayout) -> None:
        self._layout = layout
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._keys = np.frombuffer(mapped, "<i8", layout.places, PAGE).reshape(-1, PLACES)
        count = (layout.places + 1) * layout.width
        self._rows = np.frombuffer(mapped, layout.dtype, count, layout.rows_at).reshape(-1, layout.width)

    def find(self, keys: NDArray[np.int64]) -> Rows:
        """Return the rows of keys of any shape, float32[..., width], zeros for those that have none."""
        flat = keys.reshape(-1)
        buckets = np.stack([flat % prime for prime in self._layout.primes], axis=1)
        equal = (self._keys[buckets] == flat[:, None, None]).reshape(len(flat), 2 * PLACES)
        place = equal.argmax(axis=1)
        row = buckets[np.arange(len(flat)), place // PLACES] * PLACES + place % PLACES
        found = self._rows[np.where(equal.any(axis=1), row, self._layout.places)]
        return found.astype(np.float32).reshape(*keys.shape, self._layout.width)


def unused(keys: Sequence[Keys]) -> int:
    """Return the least number that is none of some keys."""
    small = set(range(1024))
    for some in keys:
        small -= set(some[some < 1024].tolist())
    return min(small)
