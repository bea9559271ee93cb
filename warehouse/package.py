"""The model of another package, which a version keeps as that package wrote it: one file in a folder of its own."""

from __future__ import annotations

from pathlib import Path

from .durable import creating
from .rows import reading
from .stored import VersionFile, seal

FILE = "model"


def write_package(folder: Path, model: bytes) -> None:
    """Write a model; durable when this returns.

    Raises:
        ModelError: the disk is full, or the folder is not writable.
    """
    path = folder / FILE
    with creating(path):
        path.write_bytes(model)
        seal(path, 0, [])


def read_package(part: VersionFile) -> bytes:
    """Read a version's model.

    Raises:
        ModelError: it is gone, or damaged.
    """
    with reading(part.path):
        return part.content()
