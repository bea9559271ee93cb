"""What is said where a function that makes rows, such as explode, cannot stand or take its arguments, on every engine."""

from __future__ import annotations

import re

from .words import EXPLODES

CALL = re.compile(rf"\b(?:{'|'.join(sorted(EXPLODES, key=len, reverse=True))})(?=\s*\()", re.IGNORECASE)


def named_in(text: str) -> str | None:
    """Return the first function that makes rows, of those that a text calls."""
    found = CALL.search(text)
    return found[0] if found else None


def not_alone(name: str) -> str:
    """Return words for one that is a part of an expression, or of another clause than SELECT."""
    return (
        f"{name} makes rows, so it must be a column of SELECT by itself. Compute with its rows around it: "
        f"FROM requests LATERAL VIEW {name}(items) t AS item."
    )


def not_one_array(name: str, count: int | str) -> str:
    """Return words for one with several arguments, or none."""
    return (
        f"{name} takes one array, got {count} arguments. Put another into LATERAL VIEW, for all pairs of their rows, or join "
        "them element by element: inline(arrays_zip(a, b))."
    )


def no_array(name: str, value: str, kind: str) -> str:
    """Return words for one whose argument has another type."""
    if name.startswith("inline"):
        return "inline takes an array of structs. Take the elements of other arrays by explode."
    return (
        f"{name} makes rows of an array or a map, and {value} is of type {kind}. Name a column of arrays; a string becomes one "
        "by split(text, ',')."
    )


def other_names(name: str, count: int | str, made: str, names: int) -> str:
    """Return words for one whose columns are named in another number.

    Args:
        made: the columns' own names in brackets, or nothing.
    """
    return f"{name} makes {count} columns{made}, got {names} names for them. Name each."


def second(first: str, name: str) -> str:
    """Return words for a SELECT with two of them."""
    return (
        f"A SELECT takes one function that makes rows, here {first}. Put {name} in LATERAL VIEW, for all pairs of their rows."
    )
