"""Checkpoints of a service on disk.

<service>/checkpoints/<epoch>-<number>.json          written last: a checkpoint without it is none
<service>/checkpoints/files/<epoch>-<number>/...      files of the user, beside the rows
<service>/checkpoints/rows/<table>/<epoch>-<number>/  what the shards held
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ...warehouse.durable import clear, replace_text, storing, sync_tree
from ...warehouse.trainings.checkpoints import name_of
from ..errors import CheckpointError, StatementError
from .held import Ask

KEPT = 2
NAMED = re.compile(r"\d{6}-\d{6}\.json")
FILE = re.compile(r"\w[\w.-]*")
FORMAT = 1


class ServiceCheckpoint(NamedTuple):
    """A checkpoint of a service.

    Attributes:
        parts: by table, what each shard wrote.
        files: the names of the user's files.
        applied: what updates that have a name have done, by it: they are not applied again.
    """

    epoch: int
    number: int
    parts: Mapping[str, Sequence[str]]
    files: Sequence[str] = ()
    applied: Mapping[str, Mapping[str, int]] = MappingProxyType({})

    @property
    def name(self) -> str:
        return name_of(self.epoch, self.number)


class ServiceCheckpoints:
    """The checkpoints of a service in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkpoints"
        self.rows = self.folder / "rows"

    def newest(self) -> ServiceCheckpoint | None:
        """Return the newest complete one.

        Raises:
            CheckpointError: it is damaged.
        """
        names = self._names()
        return self._read(names[-1]) if names else None

    def files_of(self, checkpoint: ServiceCheckpoint) -> dict[str, Path]:
        """Return the user's files of a checkpoint."""
        return {name: self.folder / "files" / checkpoint.name / name for name in checkpoint.files}

    def take(
        self, ask: Ask, epoch: int, files: Mapping[str, Path], applied: Mapping[str, Mapping[str, int]]
    ) -> ServiceCheckpoint:
        """Have every shard write what it holds, and keep files beside it.

        Raises:
            ModelError: the disk is full, or the folder is not writable.
            StatementError: a file cannot be kept.
        """
        check_files(files)
        number = 1 + max((int(name[7:13]) for name in self._names() if int(name[:6]) == epoch), default=0)
        answers = ask("write", {"folder": str(self.rows), "epoch": epoch, "number": number})
        parts = {table: [text for one in answers for text in one["parts"][table]] for table in answers[0]["parts"]}
        made = ServiceCheckpoint(epoch, number, parts, tuple(files), dict(applied))
        with storing(self.folder):
            for name, path in self.files_of(made).items():
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(files[name], path)
            for place in (*self.rows.glob(f"*/{made.name}"), self.folder / "files" / made.name):
                if place.exists():
                    sync_tree(place)
        replace_text(self.folder / f"{made.name}.json", json.dumps({"format": FORMAT, **made._asdict()}) + "\n")
        self._prune()
        return made

    def _names(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*.json") if NAMED.fullmatch(path.name))

    def _read(self, name: str) -> ServiceCheckpoint:
        path = self.folder / name
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values.pop("format") != FORMAT:
                raise ValueError("it is of another version of xpsql")
            return ServiceCheckpoint(**values)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise CheckpointError(
                f"The checkpoint {path} is damaged: {error}. Remove it to begin with the one before."
            ) from error

    def _prune(self) -> None:
        """Remove all but the newest, the manifest first."""
        for name in self._names()[:-KEPT]:
            (self.folder / name).unlink(missing_ok=True)
            for place in (*self.rows.glob(f"*/{name[:13]}"), self.folder / "files" / name[:13]):
                clear(place)


def check_files(files: Mapping[str, Path]) -> None:
    """Require files that can be kept beside rows.

    Raises:
        StatementError: names the first that cannot.
    """
    for name, path in files.items():
        if not FILE.fullmatch(name):
            raise StatementError(f"A file beside rows has a name of letters, digits, _, . and -; got {name!r}.")
        if not path.is_file():
            raise StatementError(f"The file {path}, to be kept as {name}, does not exist. Write it first.")
