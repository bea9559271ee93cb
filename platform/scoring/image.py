"""Images: the rows of a version as files that are mapped, not read: weights only, found by key where they lie.

    64 bytes    "XPSQLIMG", uint32 format 1, uint32 floats of a row, uint64 rows, uint64 empty, uint32 places of a bucket,
                uint32 bytes of a bucket, 16 bytes of the training's name, uint64 checksum
    uint64[1025]  the bucket where each slice begins, and their number; then zeros to a multiple of 64 bytes
    buckets     uint64 keys[places], float32 rows[places][floats], zeros to a multiple of 64 bytes

Little-endian. Slice and place of a key: platform/ps/native/image.hpp. `empty` is a key that no row has. The checksum is XXH64
of all before the buckets, with zeros in its own place. One file for each float column of a table, about 15 bytes a row of one
float.

An image is derived: it is made when the version is first loaded, in the version's folder, or in the user's cache folder where
that cannot be written.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import secrets
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...warehouse.dense import read_dense
from ..ps._native import IMAGE_HEAD_BYTES, Image, fill_image, hash_bytes
from ..ps.keys import NUM_SLICES, slices
from ..ps.messages import NO_MOMENTS, Array, Keys, Pulled
from ..ps.programs import OFFERED
from ..training.row_columns import values

if TYPE_CHECKING:
    from ...warehouse.version import Version

HEADER = struct.Struct("<8sIIQQII16sQ")
MAGIC, FORMAT, LINE = b"XPSQLIMG", 1, 64
LOAD = 0.85
SMALL = 1024
FOLDER = "serving"

Told = Callable[[str], None]


class ImageWeights:
    """The parameters of a version as readers need them, from images; see Weights.

    Args:
        version: a trained one, whose files are needed while this is made.
        told: is given what went wrong with an image, a line each.

    Attributes:
        images: by table, of its weights.
    """

    def __init__(self, version: Version, told: Told) -> None:
        tables = version.manifest.tables
        self.images = {table.name: image_of(version, table.name, "w", told) for table in tables}
        self._offered = {
            table.name: image_of(version, table.name, OFFERED, told) for table in tables if OFFERED in table.columns
        }
        self._dense: dict[str, Array] = {
            name: jnp.asarray(array) for (name, _), array in read_dense(version.stored("dense"), "w").items()
        }

    def pull(self, keys: Keys, size: int) -> Pulled:
        """Return what the version knows of unique keys, zeros for those that it does not know; see Shard."""
        return Pulled(gathered(self.images, keys, size), {}, self._dense, NO_MOMENTS, gathered(self._offered, keys, size))


def gathered(images: dict[str, Image], keys: Keys, size: int) -> dict[str, NDArray[np.float32]]:
    found = {}
    for name, image in images.items():
        found[name] = np.zeros((size, image.dim), np.float32)
        image.gather(keys, found[name])
    return found


def image_of(version: Version, table: str, column: str, told: Told) -> Image:
    """Open the image of a table's float column, and make it where there is none that is whole."""
    name = f"{table}.{column}.image"
    for path in (version.folder / FOLDER / name, cached(version) / name):
        if path.exists():
            try:
                return opened(path, version)
            except (OSError, ValueError) as error:
                told(f"The image {path} cannot be used and is made again: {error}.")
    for path in (version.folder / FOLDER / name, cached(version) / name):
        try:
            write(path, version, table, column)
            return opened(path, version)
        except OSError as error:
            problem = error
    told(f"The image {name} stays in memory: {problem}.")
    memory = np.zeros(image_bytes(version, table, column), np.uint8)
    fill(memory, version, table, column)
    return Image(memory)


def cached(version: Version) -> Path:
    """Return where images are kept of a version that lies where nobody may write."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "xpsql" / FOLDER / hashlib.sha256(str(version.folder).encode()).hexdigest()[:16]


def opened(path: Path, version: Version) -> Image:
    """Map an image.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged, or of another training.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < IMAGE_HEAD_BYTES:
            raise ValueError("it is cut off")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mmap, "MADV_WILLNEED"):
        mapped.madvise(mmap.MADV_WILLNEED)
    memory = np.frombuffer(mapped, np.uint8)
    *_, training, checksum = HEADER.unpack_from(mapped)
    if checksum != checksum_of(memory[:IMAGE_HEAD_BYTES]):
        raise ValueError("its checksum does not fit")
    if training != training_of(version):
        raise ValueError("it is of another training")
    return Image(memory)


def write(path: Path, version: Version, table: str, column: str) -> None:
    """Write an image, which appears whole.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with begun.open("w+b") as file:
            file.truncate(image_bytes(version, table, column))
            with mmap.mmap(file.fileno(), 0) as mapped:
                memory = np.frombuffer(mapped, np.uint8)
                fill(memory, version, table, column)
                del memory
                mapped.flush()
            os.fsync(file.fileno())
        begun.replace(path)
    finally:
        begun.unlink(missing_ok=True)


def image_bytes(version: Version, table: str, column: str) -> int:
    offsets, _, _ = counted(version, table, places_of(dim_of(version, table, column)))
    return IMAGE_HEAD_BYTES + int(offsets[-1]) * stride_of(dim_of(version, table, column))


def fill(memory: NDArray[np.uint8], version: Version, table: str, column: str) -> None:
    """Write an image into memory of zeros, of image_bytes."""
    dim = dim_of(version, table, column)
    places, stride = places_of(dim), stride_of(dim)
    offsets, rows, empty = counted(version, table, places)
    head = memory[:IMAGE_HEAD_BYTES]
    head[HEADER.size : HEADER.size + offsets.nbytes] = offsets.view(np.uint8)
    fields = (MAGIC, FORMAT, dim, rows, empty, places, stride, training_of(version))
    head[: HEADER.size] = np.frombuffer(HEADER.pack(*fields, 0), np.uint8)
    head[: HEADER.size] = np.frombuffer(HEADER.pack(*fields, checksum_of(head)), np.uint8)
    if empty:
        buckets = memory[IMAGE_HEAD_BYTES:].reshape(-1, stride)
        buckets[:, : places * 8] = np.frombuffer(np.full(places, empty, np.uint64).tobytes(), np.uint8)
    for keys, floats in rows_of(version, table, column):
        fill_image(memory, keys, floats)


def counted(version: Version, table: str, places: int) -> tuple[NDArray[np.uint64], int, int]:
    """Return the bucket where each slice begins, and their number, uint64[1025]; the rows; and a key that none of them has."""
    counts, small = np.zeros(NUM_SLICES, np.int64), set(range(SMALL))
    for batch in version.rows(table, ["key"]):
        keys = batch.column(0).to_numpy().view(np.uint64)
        counts += np.bincount(slices(keys), minlength=NUM_SLICES)
        small -= set(keys[keys < SMALL].tolist())
    buckets = np.where(counts > 0, np.ceil(counts / (places * LOAD)) + 1, 0)
    return np.concatenate([[0], np.cumsum(buckets)]).astype(np.uint64), int(counts.sum()), min(small)


def rows_of(version: Version, table: str, column: str) -> Iterator[tuple[Keys, NDArray[np.float32]]]:
    dim = dim_of(version, table, column)
    for batch in version.rows(table, ["key", column]):
        floats = np.ascontiguousarray(values(batch.column(1)).reshape(-1, dim), np.float32)
        yield batch.column(0).to_numpy().view(np.uint64), floats


def dim_of(version: Version, table: str, column: str) -> int:
    found = version.manifest.table(table)
    return found.dim if column == "w" else found.columns[column]


def places_of(dim: int) -> int:
    """Return how many keys a bucket has: as fill a line of the cache, with their rows where these are one float."""
    return LINE // 12 if dim == 1 else LINE // 8


def stride_of(dim: int) -> int:
    return -(-places_of(dim) * (8 + 4 * dim) // LINE) * LINE


def training_of(version: Version) -> bytes:
    """Return 16 bytes that tell a training from others: its name, or, of one that has none, a hash of when it began."""
    manifest = version.manifest
    named = manifest.training or hashlib.sha256(f"{manifest.created} {manifest.statement}".encode()).hexdigest()[:32]
    return bytes.fromhex(named)


def checksum_of(head: NDArray[np.uint8]) -> int:
    """Return the checksum of what stands before the buckets, whatever is in its own place."""
    plain = head.copy()
    plain[HEADER.size - 8 : HEADER.size] = 0
    return int(hash_bytes(np.array([0, len(plain)], np.int64), plain)[0])
