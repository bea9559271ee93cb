"""The checkpoints of a training on disk.

    <place>/<epoch>-<number>/shard-<s>.<table>.parquet    records of rows, as the store holds them; page checksums
    <place>/<epoch>-<number>/shard-<s>.state              all else that the shard holds
    <place>/<epoch>-<number>/driver.state                 how far the training is
    <place>/<epoch>-<number>/manifest.json                written last: a checkpoint without it is none
    <place>/owner.json                                    the owner, in a folder that the statement names

A checkpoint is full, or has the rows that changed since the previous one; its manifest names the checkpoints that it builds on.
A writer uses only its own epoch, so what a dead driver's tasks still write harms no checkpoint of its successor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...platform.errors import CheckpointError, ModelError
from ...platform.typed import has_types
from ..durable import storing
from ..entries import many, one, record
from ..manifest import FORMAT, Manifest
from ..names import folder_name
from ..storage import Storage
from .checkpoint_files import File, damaged

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
DRIVER = "driver.state"
OWNER = "owner.json"
NAME = re.compile(r"(\d{6})-(\d{6})")
FILE_NAME = re.compile(r"\w[\w.-]*")
KEPT_CHAINS = 2


@dataclass(frozen=True)
class RowsFile:
    """The rows of a table in a part: their file and number, and whether they are all of the table's."""

    table: str
    file: File = field(default=File(""), metadata=one(File))
    rows: int = 0
    full: bool = True


@dataclass(frozen=True)
class CheckpointPart:
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
    tables: tuple[RowsFile, ...] = field(default=(), metadata=many(RowsFile))
    state: File = field(default=File(""), metadata=one(File))
    watermarks: tuple[tuple[int, ...], ...] = ()

    @property
    def files(self) -> tuple[File, ...]:
        return (*(rows.file for rows in self.tables), self.state)

    @property
    def full(self) -> bool:
        """Whether it needs no earlier checkpoint."""
        return all(rows.full for rows in self.tables)

    def text(self) -> str:
        """Return it as it travels."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of(cls, text: str) -> CheckpointPart:
        """Return what `text` gave."""
        return record(cls, json.loads(text))


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint.

    Attributes:
        after: the names of the checkpoints that it builds on, the full one first; empty where it is full itself.
        examples: learned from so far.
        training: the training it belongs to; see Manifest.
        driver: how far the training is.
    """

    epoch: int
    number: int = 0
    after: tuple[str, ...] = ()
    parts: tuple[CheckpointPart, ...] = field(default=(), metadata=many(CheckpointPart))
    driver: File = field(default=File(DRIVER), metadata=one(File))
    examples: int = 0
    training: str = ""

    @property
    def name(self) -> str:
        return name_of(self.epoch, self.number)

    @property
    def size(self) -> int:
        """Bytes of all its files but the manifest."""
        return self.driver.size + sum(file.size for part in self.parts for file in part.files)


def check(checkpoint: Checkpoint, name: str) -> None:
    """Require of a checkpoint that was read that it is the one of its folder, and leads to nothing but what lies beside it.

    Raises:
        ValueError: it is not, or it does.
    """
    if not has_types(checkpoint, Checkpoint):
        raise ValueError("it has other values than a checkpoint")
    files = (checkpoint.driver, *(file for part in checkpoint.parts for file in part.files))
    if wrong := [one.name for one in files if FILE_NAME.fullmatch(one.name) is None]:
        raise ValueError(f"{wrong[0]!r} is not the name of a file next to it")
    if checkpoint.name != name or not all(map(NAME.fullmatch, checkpoint.after)):
        raise ValueError("it is of another checkpoint, or depends on a missing one")


def name_of(epoch: int, number: int) -> str:
    """Return the name of a checkpoint's folder; names sort by age."""
    return f"{epoch:06}-{number:06}"


@dataclass(frozen=True)
class Owner:
    """The owner of the checkpoints in a folder: a training of a version of a model of a warehouse."""

    warehouse: str = ""
    model: str = ""
    version: int = 0
    training: str = ""


def checkpoints_of(manifest: Manifest, folder: Path) -> Checkpoints:
    """Return the checkpoints of a version: in its own folder, or in one of the training's own below what its statement names.

    Raises:
        ModelError: no filesystem answers to it.
    """
    given = manifest.settings.get("checkpoint_path")
    if not given:
        return Checkpoints(Storage(str(folder / FOLDER)), manifest.training)
    name = f"v{manifest.version}-{manifest.training}"
    owner = Owner(str(folder.parents[2].resolve()), manifest.model, manifest.version, manifest.training)
    return Checkpoints(Storage(str(given), folder_name(manifest.model), name), manifest.training, owner)


def clear_checkpoints(manifest: Manifest, folder: Path) -> None:
    """Remove the checkpoints of a version as far as that is possible, and none but its own."""
    with contextlib.suppress(ModelError):
        checkpoints_of(manifest, folder).clear()


class Checkpoints:
    """The checkpoints in a place.

    Args:
        training: the one whose they are; others' in the same place are damaged. Empty: whose they are is not asked.
        owner: what a mark in the place must say; None where the place is a version's own folder.
    """

    def __init__(self, place: Storage, training: str = "", owner: Owner | None = None) -> None:
        self.place = place
        self._training = training
        self._owner = owner

    def begin(self) -> None:
        """Mark the place as the training's own, before anything is written to it.

        Raises:
            ModelError: it cannot be written, or is another training's.
        """
        if self._owner is None:
            self.clear()
        else:
            self.mark()

    def mark(self) -> None:
        """Mark a place that others share as the training's own, where its mark is not there; nothing in a version's own folder.

        Raises:
            ModelError: it cannot be written, or is another training's.
        """
        if self._owner is not None and not self._is_own():
            text = json.dumps({"format": FORMAT, "owner": dataclasses.asdict(self._owner)}, indent=1)
            self.place.replace(OWNER, text.encode())

    def clear(self) -> None:
        """Remove the place and all in it, where it is a version's own folder or has the training's mark.

        Raises:
            ModelError: it cannot be removed, or is another training's.
        """
        if self._owner is None:
            path = Path(self.place.path)
            if path.is_symlink():  # its target is not ours
                path.unlink()
            else:
                self.place.remove()
        elif self._is_own():
            self.place.remove()

    def _is_own(self) -> bool:
        """Return whether the place has the training's mark; False where nothing is there.

        Raises:
            ModelError: it is another training's, or has no mark.
        """
        if self.place.size(OWNER) is None:
            if self.place.folders():
                raise ModelError(f"{self.place.path} has no mark of the training that wrote it, {OWNER}. Remove it by hand.")
            return False
        path = self.place.below(OWNER)
        with damaged(path), self.place.opened(OWNER) as file:
            found = record(Owner, json.loads(file.read())["owner"])
        if found != self._owner:
            raise ModelError(
                f"The checkpoints in {self.place.path} belong to version {found.version} of model {found.model} in "
                f"{found.warehouse}, not to this training. A warehouse that was moved resumes where it was."
            )
        return True

    def commit(self, checkpoint: Checkpoint) -> None:
        """Publish a checkpoint whose files are all written, and remove checkpoints that are no longer needed."""
        values = json.loads(json.dumps(dataclasses.asdict(dataclasses.replace(checkpoint, training=self._training))))
        text = json.dumps({"format": FORMAT, "checksum": checksum(values), "checkpoint": values}, indent=1)
        self.place.replace(f"{checkpoint.name}/{MANIFEST}", text.encode())
        with contextlib.suppress(ModelError):  # the next commit tries again
            self.prune()

    def names(self) -> list[str]:
        """Return the names of all that were begun, oldest first.

        Raises:
            ModelError: the place cannot be read, or is another training's.
        """
        if self._owner is not None and not self._is_own():
            return []
        return [name for name in self.place.folders() if NAME.fullmatch(name)]

    def epoch(self) -> int:
        """Return the newest epoch that wrote here; 0: none."""
        return max((int(name.partition("-")[0]) for name in self.names()), default=0)

    def complete(self) -> Iterator[Checkpoint | CheckpointError]:
        """Iterate over the complete ones, the newest first; for a damaged one, its error."""
        for name in reversed(self.names()):
            if self.place.size(f"{name}/{MANIFEST}") is None:
                continue
            try:
                yield self.read(name)
            except CheckpointError as error:
                yield error

    def read(self, name: str) -> Checkpoint:
        """Read a manifest, and check that all its files, and the files of checkpoints it builds on, exist.

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
            checkpoint = record(Checkpoint, values["checkpoint"])
            check(checkpoint, name)
            if checkpoint.training != self._training and self._training:
                raise ValueError("another training wrote it")
            return checkpoint

    def prune(self) -> None:
        """Remove all but the last two complete full ones and the checkpoints that build on them."""
        names = self.names()
        complete = (c.name for c in self.complete() if isinstance(c, Checkpoint) and not c.after)
        full = list(itertools.islice(complete, KEPT_CHAINS))
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


def checksum(values: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(values, sort_keys=True).encode())
