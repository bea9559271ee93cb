"""How statements name a version of a model: `name [VERSION n]`."""

from __future__ import annotations

from typing import NamedTuple

from .cursor import Cursor


class Named(NamedTuple):
    """A model, and one of its versions or None for the one served."""

    model: str
    version: int | None


def read_version(cursor: Cursor) -> Named:
    """Read `name [VERSION n]`."""
    model = cursor.identifier("a model name")
    return Named(model, cursor.integer("a version number") if cursor.accept("VERSION") else None)
