"""The checkpoints of a training on disk.

    <place>/<epoch>-<number>/shard-<s>.<table>.parquet    records of rows, as the store holds them; page checksums
    <place>/<epoch>-<number>/shard-<s>.state              all else that the shard holds
    <place>/<epoch>-<number>/driver.state                 how far the training is
    <place>/<epoch>-<number>/manifest.json                written last: a checkpoint without it is none

A checkpoint is full, or has the rows that changed since the one before; its manifest names those it goes back to. Whoever
writes in an epoch knows no later one, so what a dead driver's tasks still write harms no checkpoint of its successor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..platform.errors import CheckpointError, ModelError
from .durable import storing
from .manifest import FORMAT, Manifest, many, one, record
from .storage import Storage

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
DRIVER = "driver.state"
NAME = re.compile(r"(\d{6})-(\d{6})")
KEPT_CHAINS = 2
PAGE_BYTES = 1 << 22

Records = NDArray[np.uint8]


@dataclass(frozen=True)
class File:
    """A file of a checkpoint: its bytes, and a checksum where it has none within."""

    name: str
    size: int = 0
    crc32: int | None = None


@dataclass(frozen=True)
class Rows:
    """The rows of a table in a part: their file and number, and whether they are all of the table's."""

    table: str
    file: File = field(default=File(""), metadata=one(File))
    rows: int = 0
    full: bool = True


@dataclass(frozen=True)
class Part:
    """What one shard wrote.

    Attributes:
        number: of the shard, among `num_shards`.
        slices: first and last + 1.
        watermarks: pass, split and the number of batches applied, for each turn of each run of slices (first, last + 1, pass,
            split, batches): what the rows have learned.
    """

    number: int
    num_shards: int = 1
    slices: tuple[int, int] = (0, 1024)
    tables: tuple[Rows, ...] = field(default=(), metadata=many(Rows))
    state: File = field(default=File(""), metadata=one(File))
    watermarks: tuple[tuple[int, ...], ...] = ()

    @property
    def files(self) -> tuple[File, ...]:
        return (*(rows.file for rows in self.tables), self.state)

    @property
    def full(self) -> bool:
        """Whether it needs no checkpoint before."""
        return all(rows.full for rows in self.tables)

    def text(self) -> str:
        """Return it as it travels."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of(cls, text: str) -> Part:
        """Return what `text` gave."""
        return record(cls, json.loads(text))


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint.

    Attributes:
        after: the names of those that it goes back to, the full one first; none where it is full itself.
        examples: learned from so far.
        driver: how far the training is.
    """

    epoch: int
    number: int = 0
    after: tuple[str, ...] = ()
    parts: tuple[Part, ...] = field(default=(), metadata=many(Part))
    driver: File = field(default=File(DRIVER), metadata=one(File))
    examples: int = 0

    @property
    def name(self) -> str:
        return name_of(self.epoch, self.number)

    @property
    def size(self) -> int:
        """Bytes of all its files but the manifest."""
        return self.driver.size + sum(file.size for part in self.parts for file in part.files)


def name_of(epoch: int, number: int) -> str:
    """Return the name of a checkpoint's folder; names sort by age."""
    return f"{epoch:06}-{number:06}"


def place_of(manifest: Manifest, folder: Path) -> Storage:
    """Return where the checkpoints of a version go: the folder that its statement names, else the version's own."""
    given = manifest.settings.get("checkpoint_path")
    return Storage(given, manifest.model, f"v{manifest.version}") if given else Storage(str(folder / FOLDER))


def clear_checkpoints(manifest: Manifest, folder: Path) -> None:
    """Remove the checkpoints of a version as far as that is possible; a later version of its number begins without them."""
    with contextlib.suppress(ModelError):
        place_of(manifest, folder).remove()


class Checkpoints:
    """The checkpoints in a place."""

    def __init__(self, place: Storage) -> None:
        self.place = place

    def commit(self, checkpoint: Checkpoint) -> None:
        """Make a checkpoint appear, whose files are all written, and remove what nobody goes back to any more."""
        values = json.loads(json.dumps(dataclasses.asdict(checkpoint)))
        text = json.dumps({"format": FORMAT, "checksum": checksum(values), "checkpoint": values}, indent=1)
        self.place.replace(f"{checkpoint.name}/{MANIFEST}", text.encode())
        with contextlib.suppress(ModelError):  # the next commit tries again
            self.prune()

    def names(self) -> list[str]:
        """Return the names of all that were begun, oldest first."""
        return [name for name in self.place.folders() if NAME.fullmatch(name)]

    def epoch(self) -> int:
        """Return the newest epoch that wrote here; 0: none."""
        return max((int(name.partition("-")[0]) for name in self.names()), default=0)

    def complete(self) -> Iterator[Checkpoint | CheckpointError]:
        """Iterate over the complete ones, the newest first; in place of a damaged one, what is wrong with it."""
        for name in reversed(self.names()):
            if self.place.size(f"{name}/{MANIFEST}") is None:
                continue
            try:
                yield self.read(name)
            except CheckpointError as error:
                yield error

    def read(self, name: str) -> Checkpoint:
        """Read a manifest, and see that all files of it and of those it goes back to are there.

        Raises:
            CheckpointError: something is damaged or missing; says what.
        """
        checkpoint = self.manifest(name)
        for link in (checkpoint, *(self.manifest(before) for before in checkpoint.after)):
            for file in (link.driver, *(file for part in link.parts for file in part.files)):
                size = self.place.size(f"{link.name}/{file.name}")
                if size != file.size:
                    found = "is missing" if size is None else f"has {size} bytes, not {file.size}"
                    raise CheckpointError(f"{self.place.below(link.name)}/{file.name} {found}")
        return checkpoint

    def manifest(self, name: str) -> Checkpoint:
        """Read the manifest of a checkpoint.

        Raises:
            CheckpointError: it is damaged or missing.
        """
        path = self.place.below(f"{name}/{MANIFEST}")
        with damaged(path):
            with self.place.opened(f"{name}/{MANIFEST}") as file:
                values = json.loads(file.read())
            if values["format"] > FORMAT:
                raise ModelError(f"{path} has format {values['format']}; this xpsql reads up to {FORMAT}. Install a newer one.")
            if values["checksum"] != checksum(values["checkpoint"]):
                raise ValueError("its checksum differs")
            return record(Checkpoint, values["checkpoint"])

    def prune(self) -> None:
        """Remove all but the last two full ones that are complete and what goes back to them."""
        names = self.names()
        full = [c.name for c in self.complete() if isinstance(c, Checkpoint) and not c.after]
        if len(full) < KEPT_CHAINS:
            return
        for name in names:
            if name < full[KEPT_CHAINS - 1]:
                self.remove(name)

    def remove(self, name: str) -> None:
        """Remove a checkpoint, the manifest first, so that a kill leaves none that looks damaged."""
        with storing(Path(self.place.below(name))), contextlib.suppress(FileNotFoundError):
            self.place.files.delete_file(self.place.below(f"{name}/{MANIFEST}"))
        self.place.remove(name)


def write_records(place: Storage, name: str, record_bytes: int, pieces: Iterable[Records]) -> tuple[File, int]:
    """Write records of rows and return their file and how many there are.

    Args:
        pieces: uint8[n, record_bytes] each.

    Raises:
        ModelError: the disk is full, or the place is not writable.
    """
    import pyarrow.parquet as pq

    schema, rows = pa.schema([pa.field("record", pa.binary(record_bytes), nullable=False)]), 0
    layout = {"compression": "none", "use_dictionary": False, "data_page_size": PAGE_BYTES}
    with place.written(name) as file:
        with pq.ParquetWriter(file, schema, write_statistics=False, write_page_checksum=True, **layout) as writer:
            for records in pieces:
                rows += len(records)
                column = pa.FixedSizeBinaryArray.from_buffers(schema.field(0).type, len(records), [None, pa.py_buffer(records)])
                writer.write_table(pa.Table.from_arrays([column], schema=schema))
        return File(name.rpartition("/")[2], file.tell()), rows


def read_records(place: Storage, name: str, rows: int) -> Iterator[Records]:
    """Read the records of a file, uint8[n, record_bytes] at a time.

    Args:
        rows: as many as it must have.

    Raises:
        CheckpointError: it is damaged or missing.
    """
    import pyarrow.parquet as pq

    path, found = place.below(name), 0
    with damaged(path), place.opened(name) as file, pq.ParquetFile(file, page_checksum_verification=True) as parquet:
        for group in range(parquet.num_row_groups):
            for chunk in parquet.read_row_group(group, use_threads=False).column(0).chunks:
                found += len(chunk)
                records = np.frombuffer(chunk.buffers()[1], np.uint8).reshape(-1, chunk.type.byte_width)
                yield records[chunk.offset : chunk.offset + len(chunk)]
        if found != rows:
            raise ValueError(f"it has {found} rows, not {rows}")


def write_state(place: Storage, name: str, pieces: Sequence[bytes | bytearray | memoryview]) -> File:
    """Write a file of bytes and return it with their checksum."""
    size = crc32 = 0
    with place.written(name) as file:
        for piece in pieces:
            file.write(piece)
            size, crc32 = size + len(piece), zlib.crc32(piece, crc32)
    return File(name.rpartition("/")[2], size, crc32)


def read_state(place: Storage, name: str, file: File) -> Records:
    """Read a file of bytes, uint8[n].

    Raises:
        CheckpointError: it is damaged or missing.
    """
    with damaged(place.below(name)):
        with place.opened(name) as opened:
            content = opened.read()
        if zlib.crc32(content) != file.crc32:
            raise ValueError("its checksum differs")
        return np.frombuffer(content, np.uint8)


@contextlib.contextmanager
def damaged(path: str) -> Iterator[None]:
    """Turn the errors of reading a checkpoint into a CheckpointError that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing") from error
    except (OSError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error


def checksum(values: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())
