"""Whether what was read has the types that its record declares: JSON of others may have anything anywhere."""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

MOST = 1 << 63

fields_of: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)
"""Returns the types of a record's fields, which are looked up once."""


def has_types(value: Any, hint: Any) -> bool:
    """Return whether a value is of an annotated type; a list may stand for a tuple, and an integer for a float.

    Integers are of 64 bits. In place of a protocol any record may stand whose own fields have their types.
    """
    if hint is str or hint is bool:
        return type(value) is hint
    if hint is int:
        return type(value) is int and -MOST <= value < MOST
    if hint is float:
        return type(value) is float or has_types(value, int)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(has_types(value, one) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is Mapping:
        return isinstance(value, dict) and all(has_types(one, arguments[1]) for one in value.values())
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        each = [arguments[0]] * len(value) if arguments[-1] is ... else arguments
        return len(each) == len(value) and all(map(has_types, value, each))
    kind = type(value) if getattr(hint, "_is_protocol", False) else hint
    if dataclasses.is_dataclass(kind):
        return type(value) is kind and all(has_types(getattr(value, name), one) for name, one in fields_of(kind).items())
    return hint is Any or type(value) is hint


def check_types(record: Any) -> None:
    """Refuse a record that has a value of another type than its field.

    Raises:
        ValueError: says which.
    """
    for name, kind in fields_of(type(record)).items():
        if not has_types(value := getattr(record, name), kind):
            raise ValueError(f"{name} cannot be {reprlib.repr(value)}")
