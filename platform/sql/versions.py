"""How statements name a version of a model: `name [VERSION n]`."""

from __future__ import annotations

from typing import NamedTuple

from .cursor import Cursor


class NamedVersion(NamedTuple):
    """A model, and one of its versions or None for the one served."""

    model: str
    version: int | None


def read_version(cursor: Cursor) -> NamedVersion:
    """Read `name [VERSION n]`."""
    model = cursor.identifier("a model name")
    return NamedVersion(model, cursor.integer("a version number") if cursor.accept("VERSION") else None)
