"""Checksummed files of a version: the checksums of their blocks, and the slices whose keys' rows a block has.

A block is a run of a file's bytes that is read and checked as a whole; the blocks of a file are consecutive and cover it. A
reader gets only checked bytes, and reads only the blocks that it needs where blocks are of slices.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self, cast

import numpy as np

from ..platform.errors import ModelError

NUM_SLICES = 1024  # a key's slice is its top ten bits
SLICE_SHIFT = 54
BLOCK_ROWS = 1 << 12
SUMS = ".sums"
STORED = re.compile(
    r"((rows|tombstones)/[A-Za-z0-9_]+|dense|candidates|trials|tree|calibration|profile)/part-[^/]+\.parquet|package/model|program/\w[\w.-]*"
    r"|vectors/[A-Za-z0-9_]+/(values\.f32|keys-\d+\.u64|places-\d+\.i32)"
)


class Block(NamedTuple):
    """A block of a file; in the manifest "first-stop size checksum".

    Attributes:
        first, stop: its rows have keys of the slices first to stop - 1; 0 and 1024 where it may have any.
        size: bytes.
        checksum: 32 hexadecimal digits of XXH3.
    """

    first: int
    stop: int
    size: int
    checksum: str

    def __str__(self) -> str:
        return f"{self.first}-{self.stop} {self.size} {self.checksum}"

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a block from its text.

        Raises:
            ValueError: it is none.
        """
        slices, size, checksum = text.split(" ")
        first, stop = map(int, slices.split("-"))
        if not 0 <= first <= stop <= NUM_SLICES or int(size) < 1 or len(checksum) != 32:
            raise ValueError(f"a block is 'first-stop size checksum', got {text!r}")
        return cls(first, stop, int(size), checksum)


@dataclass(frozen=True)
class FileEntry:
    """A file of a version: its path below the version's folder, the rows that it has, and its blocks as text."""

    path: str
    rows: int = 0
    blocks: tuple[str, ...] = ()


@dataclass(frozen=True)
class VectorsEntry:
    """Vectors with ids: their name, the query that gave them, the slots whose values are ids, the floats of each, and the units
    of the `hidden` layers that they go through."""

    name: str
    query: str = ""
    slots: tuple[str, ...] = ()
    elements: int = 0
    hidden: tuple[int, ...] = ()


@dataclass(frozen=True)
class SumsEntry:
    """The sums over features that a version's scores are, see Sums of algorithms/sums.py, so that readers do without its
    algorithm. A version whose scores are more has no such entry."""

    weights: str = ""
    vectors: str | None = None
    link: str = ""
    pooling: str = ""
    fields: int = 0


class VersionFile(NamedTuple):
    """A file of a version as readers take it.

    Attributes:
        path: where it is.
        file: what the manifest says of it; None of a version that is being written.
    """

    path: Path
    file: FileEntry | None

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open it to be read; with checksums, what is read has been checked.

        Raises:
            OSError: it cannot be read, or its bytes have changed.
        """
        if self.path.is_symlink():
            raise OSError("a file of a version must not be a link")
        with self.path.open("rb", buffering=0 if self.file else -1) as file:
            yield file if self.file is None else cast(BinaryIO, Checked(file, self.blocks))

    def content(self) -> bytes:
        """Return all of it, checked; raise as `opened`."""
        with self.opened() as file:
            return file.read()

    def check(self) -> int:
        """Read all of it and return its bytes; raise as `opened`."""
        if self.file is None:
            return len(self.content())
        with self.opened() as file:
            for block in self.blocks:
                file.read(block.size)
            return file.seek(0, os.SEEK_END)

    @property
    def size(self) -> int:
        """Its bytes, without reading it."""
        return self.path.stat().st_size if self.file is None else sum(block.size for block in self.blocks)

    @property
    def blocks(self) -> list[Block]:
        """Its blocks; none where it has no checksums."""
        return [] if self.file is None else [Block.of(text) for text in self.file.blocks]


class Checked(io.RawIOBase):
    """A file whose blocks are checked as they are read.

    Args:
        file: open, unbuffered.
        blocks: all of its blocks.

    Raises:
        OSError: it is longer or shorter than they are.
    """

    def __init__(self, file: BinaryIO, blocks: Sequence[Block]) -> None:
        self._file = file
        self._blocks = blocks
        self._starts = [0, *np.cumsum([block.size for block in blocks]).tolist()]
        self._at = 0
        self._number, self._held = -1, memoryview(b"")
        size = os.fstat(file.fileno()).st_size
        if size != self._starts[-1]:
            raise OSError(f"it has {size:,} bytes, and {self._starts[-1]:,} were written")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._starts[-1]}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        stop = self._starts[-1] if size < 0 else min(self._at + size, self._starts[-1])
        pieces = []
        while self._at < stop:
            number = int(np.searchsorted(self._starts, self._at, "right")) - 1
            block, start = self.block(number), self._starts[number]
            pieces.append(block[self._at - start : stop - start])
            self._at += len(pieces[-1])
        return b"".join(pieces)

    def block(self, number: int) -> memoryview:
        """Return a block's bytes, checked; the last one is at hand."""
        if number != self._number:
            block, start = self._blocks[number], self._starts[number]
            content = read_at(self._file.fileno(), block.size, start)
            if not matches(content, block.checksum):
                raise OSError(f"its bytes {start:,} to {start + block.size:,} have another checksum than those written")
            self._number, self._held = number, memoryview(content)
        return self._held


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Return `size` bytes of a file from an offset on, or as many as there are."""
    content = os.pread(descriptor, size, offset)
    while len(content) < size and (more := os.pread(descriptor, size - len(content), offset + len(content))):
        content += more
    return content


def checksum(content: bytes | memoryview) -> str:
    """Return the XXH3 of bytes, of 128 bits: 32 hexadecimal digits."""
    import xxhash  # a library, which few statements need

    return xxhash.xxh3_128_hexdigest(content)


def checksum_of(path: Path) -> str:
    """Return the checksum of all bytes of a file, read piece by piece."""
    import xxhash

    with path.open("rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def matches(content: bytes | memoryview, written: str) -> bool:
    """Return whether bytes have a checksum."""
    return checksum(content) == written


def seal(path: Path, rows: int, runs: Sequence[tuple[int, int, int]]) -> None:
    """Keep the checksums of a file that has been written beside it, until the version's manifest takes them.

    Args:
        runs: of each block but the last its first slice, the one after its last, and its bytes; the last has what is left.
    """
    with path.open("rb", buffering=0) as file:
        blocks, at, end = [], 0, os.fstat(file.fileno()).st_size
        for first, stop, size in (*runs, (0, NUM_SLICES, end - sum(size for _, _, size in runs))):
            blocks.append(str(Block(first, stop, size, checksum(read_at(file.fileno(), size, at)))))
            at += size
    sums_of(path).write_text(json.dumps({"rows": rows, "blocks": blocks}), encoding="utf-8")


def run_of(rows: int) -> int:
    """Return how many slices lie in one block of a file, which readers can choose, so that it has BLOCK_ROWS: a power of 2."""
    return next((1 << bits for bits in range(7) if (rows << bits) // NUM_SLICES >= BLOCK_ROWS), NUM_SLICES)


def sums_of(path: Path) -> Path:
    return path.with_name(path.name + SUMS)


def collected(folder: Path, names: Sequence[str]) -> tuple[FileEntry, ...]:
    """Return the files in some folders of a version, and remove what was kept beside them.

    Raises:
        ModelError: what is beside one is damaged.
    """
    files = []
    for name in names:
        for path in sorted(path for path in (folder / name).rglob("*") if is_stored(path.relative_to(folder).as_posix())):
            if not sums_of(path).exists():
                seal(path, 0, [])
            files.append(replace(sealed(path), path=path.relative_to(folder).as_posix()))
        for left in (folder / name).rglob(f"*{SUMS}"):
            with contextlib.suppress(OSError):  # it only takes space
                left.unlink()
    return tuple(files)


def sealed(path: Path) -> FileEntry:
    """Return a file that has been written with its checksums, which are beside it.

    Raises:
        ModelError: what is beside it is gone or damaged.
    """
    try:
        kept = json.loads(sums_of(path).read_text(encoding="utf-8"))
        entry = FileEntry(path.name, int(kept["rows"]), tuple(kept["blocks"]))
        [Block.of(block) for block in entry.blocks]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{sums_of(path)} is damaged: {error}. Run the statement again.") from error
    return entry


def check_files(files: Sequence[FileEntry]) -> None:
    """Refuse an invalid list of a version's files.

    Raises:
        ValueError: says which.
    """
    for file in files:
        if not is_stored(file.path):
            raise ValueError(f"a file of a version is rows/TABLE/part-N.parquet and the like, got {file.path!r}")
        for block in file.blocks:
            Block.of(block)


def is_stored(path: str) -> bool:
    """Return whether a path below a version's folder is one of the files of its data."""
    return STORED.fullmatch(path) is not None
