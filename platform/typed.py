"""Whether what was read has the types that its record declares: JSON of others may have anything anywhere."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any

fields_of: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)
"""Returns the types of a record's fields, which are looked up once."""


def has_types(value: Any, hint: Any) -> bool:
    """Return whether a value is of an annotated type; a list may stand for a tuple, and an integer for a float."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(has_types(value, one) for one in arguments)
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        each = [arguments[0]] * len(value) if arguments[-1] is ... else arguments
        return len(each) == len(value) and all(map(has_types, value, each))
    if dataclasses.is_dataclass(hint):
        return type(value) is hint and all(has_types(getattr(value, name), one) for name, one in fields_of(hint).items())
    if hint is float:
        return type(value) in (int, float)
    return type(value) is hint
