"""Native code of the parameter server: hashing, uniqueness and the row store.

Every function releases the GIL. Inputs are C-contiguous CPU arrays of exactly the dtype named, read-only ones included (NumPy,
JAX, Arrow buffers); a wrong dtype is a TypeError, a wrong shape a ValueError.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_Validity: TypeAlias = npt.NDArray[np.uint8] | None
_Seeds: TypeAlias = int | npt.NDArray[np.uint64]

def hash_bytes(
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    validity: _Validity = None,
    bit_offset: int = 0,
    seeds: _Seeds = 42,
) -> npt.NDArray[np.uint64]:
    """Hash byte strings with XXH64; a NULL keeps its seed.

    Args:
        offsets: n + 1 ascending positions in `data`; value i is data[offsets[i] : offsets[i + 1]].
        data: the bytes of all values.
        validity: Arrow's bitmap, bit `bit_offset + i` of value i; None where nothing is NULL.
        bit_offset: the bitmap's first bit.
        seeds: one for all, or uint64[n]: the hashes of the columns before.

    Returns:
        uint64[n]

    Raises:
        ValueError: offsets that descend or leave `data`, or a bitmap that is too short.

    Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
    """

def hash_int32(
    values: npt.NDArray[np.int32], validity: _Validity = None, bit_offset: int = 0, seeds: _Seeds = 42
) -> npt.NDArray[np.uint64]:
    """Hash four-byte integers (Spark's boolean, tinyint, smallint, int, date; the bits of a float); see hash_bytes."""

def hash_int64(
    values: npt.NDArray[np.int64], validity: _Validity = None, bit_offset: int = 0, seeds: _Seeds = 42
) -> npt.NDArray[np.uint64]:
    """Hash eight-byte integers (Spark's bigint and timestamp, the bits of a double); see hash_bytes."""

def hash_int64_text(
    values: npt.NDArray[np.int64], validity: _Validity = None, bit_offset: int = 0, seeds: _Seeds = 42
) -> npt.NDArray[np.uint64]:
    """Hash the decimal text of integers, as hash_bytes would their strings; see hash_bytes."""
