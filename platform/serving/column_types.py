"""The types of a model's columns, from the words in its manifest."""

from __future__ import annotations

import re

import pyarrow as pa

from ..errors import ModelError
from ..input.kinds import kind_named
from ..input.slot import Slot
from ..spark_types import NAMES

DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
TYPES = {name: kind for kind, name in NAMES.items()}


def column_type(slot: Slot) -> pa.DataType:
    """Return the Arrow type that a slot's values are cast to before they are scored.

    Raises:
        ModelError: the manifest has a type that no slot can have.
    """
    kind = type_of(slot.type)
    if kind is None:
        raise ModelError(f"The column {slot.name} of the model has the type {slot.type!r}, which this xpsql does not support.")
    if kind_named(slot.kind).features and pa.types.is_decimal(kind):
        return pa.uint64()  # what SQL calls decimal(20,0)
    return kind


def type_of(words: str) -> pa.DataType | None:
    """Return the type that Spark's words name, such as `map<string,array<int>>`; None for others."""
    if match := DECIMAL.fullmatch(words):
        return pa.decimal128(int(match[1]), int(match[2]))
    if words.startswith("array<") and words.endswith(">"):
        element = type_of(words[len("array<") : -1])
        return None if element is None else pa.list_(element)
    if words.startswith("map<") and words.endswith(">"):
        key, _, item = words[len("map<") : -1].partition(",")
        key_type, item_type = type_of(key), type_of(item)
        return None if key_type is None or item_type is None else pa.map_(key_type, item_type)
    if words.startswith("struct<") and words.endswith(">"):
        fields = [field.partition(":")[::2] for field in words[len("struct<") : -1].split(",")]
        types = [type_of(type) for _, type in fields]
        return None if None in types else pa.struct([(name, type) for (name, _), type in zip(fields, types, strict=True)])
    return TYPES.get(words)
