"""Validation of requests beyond their declared types, before anything acts on them.

The types of values and of arrays are checked where bytes become messages (codec.py). These checks are for lengths, shapes and
ranges, which a handler compares with what its server has before it changes anything. None reads the elements of an array.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from ...errors import TrainingError

WORD = range(1 << 32)
"""Numbers that programs take, and that columns hold, as uint32."""
COUNT = range(1 << 63)


def refused(what: str, expected: object, came: object) -> TrainingError:
    return TrainingError(f"Refused a request: expected {what} to be {expected}, got {came}. Is every task of this xpsql?")


def check_within(what: str, number: int, allowed: range) -> None:
    """Require a number in a range.

    Raises:
        TrainingError: it is out of range.
    """
    if number not in allowed:
        raise refused(what, f"in [{allowed.start}, {allowed.stop})", number)


def check_shape(what: str, array: Any, shape: tuple[int, ...]) -> None:
    """Require an array, NumPy's or JAX's, of a shape.

    Raises:
        TrainingError: its shape differs.
    """
    if array.shape != shape:
        raise refused(what, list(shape), list(array.shape))


def check_vector(what: str, array: NDArray[Any]) -> int:
    """Require an array of one axis, and return its length.

    Raises:
        TrainingError: it has another number of axes.
    """
    if array.ndim != 1:
        raise refused(what, "[n]", list(array.shape))
    return len(array)


def check_vectors(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Require arrays of one axis and one length.

    Raises:
        TrainingError: one is not.
    """
    (first, values), *others = arrays.items()
    length = check_vector(first, values)
    for name, array in others:
        check_shape(name, array, (length,))


def check_names(what: str, names: Iterable[str], needed: Iterable[str], allowed: Iterable[str]) -> None:
    """Require some names, and no others than those allowed.

    Raises:
        TrainingError: one lacks, or is unknown.
    """
    if not set(needed) <= set(names) <= set(allowed):
        raise refused(what, f"at least {sorted(needed)} of {sorted(allowed)}", sorted(names))
