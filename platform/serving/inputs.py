"""The columns that a version scores, and values of requests as such columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..input.kinds import kind_named
from ..input.kinds.base import SizedKind
from ..input.slot import Slot
from ..spark_types import type_words
from .casts import MismatchError, cast_to
from .column_types import column_type
from .refusal import RequestError

MOST_DIGITS = 76
"""Of decimal256."""
NO_VALUES = (ValueError, TypeError, ArithmeticError, LookupError, pa.ArrowException)
"""What Arrow raises of values that Python does not have: times beyond its years, a zone without a name, damaged decimals."""
SHOWN = 60


class Missing:
    """Marks a value that a row lacks; Arrow does not take it for a value."""


MISSING = Missing()


@dataclass(frozen=True)
class Input:
    """A column of requests, and the type that its values have; `slot`: where it is scored unchanged, else None."""

    name: str
    slot: Slot | None
    type: pa.DataType

    @classmethod
    def of(cls, slot: Slot) -> Input:
        """Return the column of a slot."""
        return cls(slot.column, slot, column_type(slot))

    @property
    def dim(self) -> int:
        """The elements of a vector; -1 of other arrays."""
        return (self.slot.dim if self.slot is not None else 0) or -1

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return values of rows, one each, in the column's type; None is NULL.

        Raises:
            RequestError: names the row and what was expected.
        """
        if (array := self.direct(values)) is not None:
            return array
        cast, made = cast_to(self.type), []
        for row, value in enumerate(values):
            if value is MISSING:
                raise RequestError(
                    400, f"Row {row} lacks the column {self.name} ({type_words(self.type)}). Send null for NULL."
                )
            try:
                made.append(None if value is None else cast(value))
            except MismatchError as error:
                raise RequestError(
                    400, f"Column {self.name}, row {row}: expected {error.expected} ({type_words(self.type)}), got {error.got}."
                ) from error
        try:
            return self.checked(pa.array(made, self.type))
        except (pa.ArrowException, OverflowError) as error:
            raise RequestError(400, f"Column {self.name}: expected {type_words(self.type)}. {error}") from error

    def direct(self, values: Sequence[Any]) -> pa.Array | None:
        """Return values as Arrow converts them where that is what a CAST does; else None."""
        kind = self.type
        try:
            if pa.types.is_integer(kind):  # Arrow would make 1 of 1.5, so the inferred type is checked first
                found = pa.array(values)
                return found.cast(kind) if pa.types.is_integer(found.type) else None
            if pa.types.is_string(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
                return pa.array(values, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # reported by row
        return None

    def cast(self, column: pa.Array) -> pa.Array:
        """Return a column of Arrow in this column's type.

        Raises:
            RequestError: see array.
        """
        kind = column.type
        if pa.types.is_dictionary(kind):
            if kind.value_type == self.type:
                return column
            with suppress(pa.ArrowNotImplementedError):  # of some types; their values are taken one by one
                column, kind = column.dictionary_decode(), kind.value_type
        if kind == self.type:
            return self.checked(column)
        if pa.types.is_null(kind):
            return pa.nulls(len(column), self.type)
        if alike(kind, self.type):
            try:
                return self.checked(column.cast(self.type))
            except pa.ArrowException:
                pass  # reported below, by row
        try:
            check_scale(kind)
            values = column.to_pylist()
        except NO_VALUES as error:
            expected = (
                f"Column {self.name}: expected {type_words(self.type)}, got {str(kind)[:SHOWN]}, which has no such values"
            )
            raise RequestError(400, f"{expected} ({error}). Send it as {type_words(self.type)}.") from error
        return self.array(values)

    def checked(self, array: pa.Array) -> pa.Array:
        """Return a column whose vectors have the slot's length, and one without vectors as it is."""
        if self.slot is None or not isinstance(kind := kind_named(self.slot.kind), SizedKind):
            return array
        vectors, rows = kind.vectors(array)
        lengths = vectors.value_lengths().fill_null(self.slot.dim).to_numpy(zero_copy_only=False)
        if len(wrong := np.flatnonzero(lengths != self.slot.dim)):
            raise RequestError(
                400,
                f"Column {self.name}, row {rows[wrong[0]]}: expected vectors of {self.slot.dim} elements, got one of "
                f"{lengths[wrong[0]]}.",
            )
        return array


def alike(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether Arrow casts values of a type as Spark does, or refuses to."""
    t = pa.types
    if t.is_list(wanted):
        lists = t.is_list(found) or t.is_large_list(found) or t.is_fixed_size_list(found)
        return lists and (found.value_type == wanted.value_type or alike(found.value_type, wanted.value_type))
    texts = t.is_large_string(found) or t.is_string_view(found)
    return bool((t.is_integer(found) and t.is_integer(wanted)) or (texts and t.is_string(wanted)) or floating(found, wanted))


def check_scale(kind: pa.DataType) -> None:
    """Refuse decimals, also within a type, whose values would be numbers of more digits than any type has.

    Raises:
        ValueError: there are.
    """
    if pa.types.is_decimal(kind) and abs(kind.scale) > MOST_DIGITS:
        raise ValueError(f"the scale of a decimal is {MOST_DIGITS} at most")
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        check_scale(kind.value_type)
    for at in range(kind.num_fields):
        check_scale(kind.field(at).type)


def floating(found: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(pa.types.is_floating(wanted) and pa.types.is_floating(found))


def by_lower_name(names: Iterable[str]) -> dict[str, str]:
    """Return names by how they are compared: without case."""
    return {name.lower(): name for name in names}
