"""The numbers that a manifest can have: it may have been written by anybody."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

MOST_ELEMENTS = 1 << 20
COUNT = (0, (1 << 63) - 1)
RANGES = {
    "number": (0, (1 << 16) - 1),
    "dim": (0, MOST_ELEMENTS),
    "length": (0, MOST_ELEMENTS),
    "elements": (0, MOST_ELEMENTS),
    "fields": (0, (1 << 16) - 1),
    "modified": (-(1 << 63), (1 << 63) - 1),
}
"""By the names of fields, of whichever record; all others are counts."""


def check_ranges(record: Any) -> None:
    """Refuse a record with an integer that its field cannot have, records and mappings of integers in it included.

    Raises:
        ValueError: says which.
    """
    for name, value in integers(record):
        low, high = RANGES.get(name, COUNT)
        if not low <= value <= high:
            raise ValueError(f"{name} is from {low} to {high}, got {value}")


def integers(record: Any) -> Iterator[tuple[str, int]]:
    """Yield the integers of a record with the names of their fields; of a mapping that may hold anything, none."""
    for field in dataclasses.fields(record):
        found = getattr(record, field.name)
        if isinstance(found, Mapping):
            found = tuple(found.values()) if "int" in str(field.type) else ()
        for value in found if isinstance(found, tuple) else (found,):
            if dataclasses.is_dataclass(value):
                yield from integers(value)
            elif isinstance(value, int) and not isinstance(value, bool) and field.name != "classes":
                yield field.name, value
