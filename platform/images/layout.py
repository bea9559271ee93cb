"""Rows of a version as a file that the service and other programs map, and whose arrays are constants of a graph of ONNX.

    4096 bytes  "XPSQLROW", uint32 format 2, uint32 floats of a row, uint64 rows, int64 first prime, int64 second prime,
                uint32 places of a bucket, uint32 bytes of a float, int64 absent, 16 bytes of the training's name, uint64
                checksum, uint32 bytes of what follows: the columns as JSON, a list of {table, column, first, floats}; zeros
    keys        int64[first prime][4], a bucket a line; `absent` in a free place; zeros to a multiple of 4096 bytes
    rows        float32 or float16 [first prime * 4 + 1][floats]; zeros in a free place, the last row is zeros; zeros to a
                multiple of 8 bytes
    checksums   uint64: of each MiB from 4096 on, the last one shorter

Little-endian. A key, a signed number, stands in one of two buckets, key mod first prime and key mod second prime, remainders
that are never negative; the row of place p of bucket b is 4 b + p. `absent` is a key that no row has. Checksums are XXH64 with
seed 0, that of the header of its 4096 bytes with zeros in its own place. platform/ps/native/image.hpp reads it.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...warehouse.checksums import read_at
from ...warehouse.mapped import content_of
from ..errors import ModelError
from ..ps._native import hash_bytes, place_two_choice
from ..ps.messages import Keys

HEADER = struct.Struct("<8sIIQqqIIq16sQI")
CHECKSUM_AT = HEADER.size - 12
MAGIC, FORMAT, PAGE = b"XPSQLROW", 2, 4096
PLACES, BLOCK, PIECE = 4, 1 << 20, 1 << 23
LOAD = 0.9
"""Of a table's places, the share that has a key; beyond 0.97 keys of two choices and four places would find none."""
GROWTH, TRIES = 1.1, 40

Bytes = NDArray[np.uint8]
Fill = Callable[[NDArray[np.int64], NDArray[np.generic]], None]


class RowColumn(NamedTuple):
    """Where in a row some floats of a table are."""

    table: str
    column: str
    first: int
    floats: int


class RowsLayout(NamedTuple):
    """What a file of rows holds and where: see above.

    Attributes:
        rows: how many keys there are.
        primes: the first is the number of buckets.
        half: floats are float16.
        training: 16 bytes that identify the training.
    """

    rows: int
    primes: tuple[int, int]
    columns: tuple[RowColumn, ...]
    half: bool
    absent: int
    training: bytes

    @property
    def width(self) -> int:
        """Floats of a row."""
        return sum(column.floats for column in self.columns)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype("<f2" if self.half else "<f4")

    @property
    def places(self) -> int:
        return self.primes[0] * PLACES

    @property
    def rows_at(self) -> int:
        """Where rows begin."""
        return PAGE + -(-self.places * 8 // PAGE) * PAGE

    @property
    def checks_at(self) -> int:
        """Where checksums begin."""
        return -(-(self.rows_at + (self.places + 1) * self.width * self.dtype.itemsize) // 8) * 8

    @property
    def size(self) -> int:
        return self.checks_at + num_blocks(self) * 8

    @property
    def header(self) -> bytes:
        described = json.dumps([column._asdict() for column in self.columns], separators=(",", ":")).encode()
        if HEADER.size + len(described) > PAGE:
            raise ModelError("The model has too many tables for a file of rows.")
        fields = (self.width, self.rows, *self.primes, PLACES, self.dtype.itemsize, self.absent, self.training)
        plain = (HEADER.pack(MAGIC, FORMAT, *fields, 0, len(described)) + described).ljust(PAGE, b"\0")
        return with_checksum(plain, checksums(np.frombuffer(plain, np.uint8))[0])

    def keys(self, memory: Bytes) -> NDArray[np.int64]:
        """Return the keys of all places."""
        return memory[PAGE : PAGE + self.places * 8].view("<i8")

    def floats(self, memory: Bytes) -> NDArray[np.generic]:
        """Return the rows of all places."""
        end = self.rows_at + (self.places + 1) * self.width * self.dtype.itemsize
        return memory[self.rows_at : end].view(self.dtype).reshape(-1, self.width)


def with_checksum(header: bytes, checksum: int) -> bytes:
    return header[:CHECKSUM_AT] + struct.pack("<Q", checksum) + header[CHECKSUM_AT + 8 :]


def checksums(memory: Bytes) -> NDArray[np.uint64]:
    """Return the checksum of each block of some bytes."""
    ends = np.arange(0, len(memory) + BLOCK, BLOCK, dtype=np.int64).clip(max=len(memory))
    return hash_bytes(ends, memory, seeds=0)


def placed(
    keys: Keys, columns: tuple[RowColumn, ...], half: bool, absent: int, training: bytes
) -> tuple[RowsLayout, NDArray[np.int64]]:
    """Return a layout with so many buckets that each key has a place, and the places.

    Args:
        keys: uint64[n], distinct.

    Raises:
        ModelError: there is none, as where keys are not hashes.
    """
    buckets = math.ceil(len(keys) / (PLACES * LOAD))
    for _ in range(TRIES):
        first = next_prime(max(buckets, 3), 1)
        second = next_prime(first - 1, -1)
        try:
            place = place_two_choice(keys, first, second)
        except ValueError:
            buckets = math.ceil(first * GROWTH) + 1
            continue
        return RowsLayout(len(keys), (first, second), columns, half, absent, training), place
    raise ModelError("The keys of the model are no hashes: some find no place in a table of two choices.")


def next_prime(number: int, step: int) -> int:
    """Return the nearest prime from a number on, of at least 2, upwards or downwards."""
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += step
    return number


def lay(memory: Bytes, layout: RowsLayout, keys: Keys, place: NDArray[np.int64], fill: Fill) -> None:
    """Write a file of rows into memory of zeros, of its size.

    Args:
        fill: given the place of each key and all rows, [places + 1, width], writes the keys' rows.
    """
    memory[:PAGE] = np.frombuffer(layout.header, np.uint8)
    buckets = layout.keys(memory)
    buckets[:] = layout.absent
    buckets[place] = keys.view(np.int64)
    fill(place, layout.floats(memory))
    memory[layout.checks_at :].view("<u8")[:] = checksums(memory[PAGE : layout.checks_at])


def write_rows(path: Path, layout: RowsLayout, keys: Keys, place: NDArray[np.int64], fill: Fill) -> None:
    """Write a file of rows, durably; see lay.

    They are laid in a file that is mapped, and then written from its beginning to its end: of what is written so Linux keeps
    huge pages, where ext4, XFS and others have them, in which rows anywhere are found much faster.

    Raises:
        OSError: it cannot be written.
    """
    with tempfile.TemporaryFile(dir=path.parent) as laid, path.open("wb") as file:
        os.posix_fallocate(laid.fileno(), 0, layout.size)  # where the disk is full, an error here and no SIGBUS below
        with mmap.mmap(laid.fileno(), 0) as mapped:
            memory = np.frombuffer(mapped, np.uint8)
            lay(memory, layout, keys, place, fill)
            for at in range(0, layout.size, PIECE):
                file.write(memory[at : at + PIECE].data)
            del memory
        file.flush()
        os.fsync(file.fileno())


def in_memory(layout: RowsLayout, keys: Keys, place: NDArray[np.int64], fill: Fill) -> Bytes:
    """Return what write_rows would write."""
    memory = np.zeros(layout.size, np.uint8)
    lay(memory, layout, keys, place, fill)
    return memory


def opened(path: Path) -> tuple[RowsLayout, Bytes]:
    """Read a file of rows into memory, or map it where it is large; its checksums but the header's are not compared.

    Raises:
        OSError: it cannot be read.
        ValueError: its header is damaged, or it is cut off.
    """
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size < PAGE or size != layout_of(read_at(file.fileno(), PAGE, 0)).size:
            raise ValueError("it is cut off")
        memory = content_of(file, size, ("MADV_HUGEPAGE", "MADV_WILLNEED"))
    return layout_of(memory[:PAGE].tobytes()), memory


def verified(path: Path) -> tuple[RowsLayout, Bytes]:
    """Open a file of rows, and compare all its checksums; raise as `opened`, and ValueError where a block is damaged."""
    layout, memory = opened(path)
    if (block := next(damaged(layout, memory, range(num_blocks(layout))), None)) is not None:
        raise ValueError(f"its block {block} has another checksum than the one written")
    return layout, memory


def num_blocks(layout: RowsLayout) -> int:
    """Return how many blocks have checksums."""
    return -(-(layout.checks_at - PAGE) // BLOCK)


def layout_of(header: bytes) -> RowsLayout:
    """Return the layout in a header.

    Raises:
        ValueError: it is damaged.
    """
    magic, form, _, rows, first, second, _, bytes_, absent, training, checksum, described = HEADER.unpack_from(header)
    if checksums(np.frombuffer(with_checksum(header, 0), np.uint8))[0] != checksum:
        raise ValueError("the checksum of its header does not fit")
    if magic != MAGIC or form != FORMAT:
        raise ValueError("it is none of this format")
    columns = tuple(RowColumn(**column) for column in json.loads(header[HEADER.size : HEADER.size + described]))
    return RowsLayout(rows, (first, second), columns, bytes_ == 2, absent, training)


def damaged(layout: RowsLayout, memory: Bytes, blocks: range) -> Iterator[int]:
    """Yield the numbers of damaged blocks."""
    written = memory[layout.checks_at :].view("<u8")
    for block in blocks:
        begin = PAGE + block * BLOCK
        found = checksums(memory[begin : min(begin + BLOCK, layout.checks_at)])
        if found[0] != written[block]:
            yield block


def unused(keys: Sequence[Keys]) -> int:
    """Return the least number that is not among some keys."""
    small = set(range(1024))
    for some in keys:
        small -= set(some[some < 1024].tolist())
    return min(small)
