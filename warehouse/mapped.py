"""Files that stay open: of all their bytes the checksums are compared when a process first uses them.

A small file is read into memory, where nothing changes it. A large one is mapped, so that processes share its pages. Where
somebody cuts it off where it stands, as no statement does, zeros are read in place of what is gone: after looking at one, ask
whether it was `cut_off`.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import xxhash
from numpy.typing import NDArray

from ._mapping import Mapping
from .checksums import Block, VersionFile, read_at

MAPPED_BYTES = 1 << 26
"""Smaller files are read."""
PIECE = 1 << 22

Bytes = NDArray[np.uint8]


class Identity(NamedTuple):
    """What distinguishes a file from another one of its path, and from itself before it was changed.

    A copy keeps the time of what was modified and may get the inode of a file that was removed; `changed` is its own.
    """

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, found: os.stat_result) -> Identity:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


KEPT: WeakValueDictionary[tuple[Identity, tuple[Block, ...]], Bytes] = WeakValueDictionary()
"""What is in use in this process."""


def verified(part: VersionFile) -> Bytes:
    """Return the bytes of a file, which have the checksums that were written, where it has any.

    Raises:
        OSError: it cannot be read, or has other bytes or more or fewer.
    """
    if part.path.is_symlink():
        raise OSError("a file of a version must not be a link")
    blocks = tuple(part.blocks)
    with part.path.open("rb", buffering=0) as file:
        key = Identity.of(os.fstat(file.fileno())), blocks
        if (found := KEPT.get(key)) is not None and not cut_off(found):
            return found
        if part.file is not None:
            check_size(key[0].size, blocks)
        content = content_of(file, key[0].size)
        if part.file is not None:
            check_blocks(content, file, blocks)
    KEPT[key] = content
    return content


def content_of(file: BinaryIO, size: int, advices: Sequence[str] = ()) -> Bytes:
    """Return all bytes of an open file, read or mapped.

    Args:
        advices: for the kernel, where it is mapped, by the names of `mmap`.
    """
    if size < MAPPED_BYTES:
        content = read_at(file.fileno(), size, 0)
        if len(content) != size:
            raise OSError("it was cut off while it was read")
        return np.frombuffer(content, np.uint8)
    return np.frombuffer(memoryview(mapping_of(file, size, advices)), np.uint8)


def mapping_of(file: BinaryIO, size: int, advices: Sequence[str] = ()) -> Mapping:
    """Return the mapping of an open file, which outlives it; see content_of.

    Raises:
        OSError: it is empty, or cannot be mapped.
    """
    if not size:
        raise OSError("it is empty")
    known = [getattr(mmap, advice) for advice in advices if hasattr(mmap, advice)]
    return Mapping(file.fileno(), size, known)


def check_size(size: int, blocks: Sequence[Block]) -> None:
    written = sum(block.size for block in blocks)
    if size != written:
        raise OSError(f"it has {size:,} bytes, and {written:,} were written")


def check_blocks(content: Bytes, file: BinaryIO, blocks: Sequence[Block]) -> None:
    """Compare the checksums of blocks: of what was read, or of a file that is mapped, which is read beside that, as a disk that
    fails then gives an error."""
    at = 0
    for block in blocks:
        stop, found = at + block.size, xxhash.xxh3_128()
        for first in range(at, stop, PIECE):
            last = min(first + PIECE, stop)
            found.update(
                content[first:last].data if len(content) < MAPPED_BYTES else read_at(file.fileno(), last - first, first)
            )
        if found.hexdigest() != block.checksum:
            raise OSError(f"its bytes {at:,} to {stop:,} have another checksum than those written")
        at = stop


def cut_off(content: Bytes) -> bool:
    """Return whether the file of some bytes that are mapped has become shorter than they are: what was read of them may have
    been zeros."""
    mapped = content.base.obj if isinstance(content.base, memoryview) else content.base
    return isinstance(mapped, Mapping) and mapped.cut_off
