"""Which kind of slot a column's type makes, and which types a role takes."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from ..errors import StatementError, Subject
from ..spark_types import is_category, type_words
from .columns import CATEGORICAL, CONTINUOUS, MULTI, VECTOR, WEIGHTED
from .roles import HASHED, TIME


def kind_of(field: pa.Field, hashed: Iterable[str]) -> str:
    """Return the slot kind of a column's type.

    Raises:
        StatementError: the type is no slot kind, or a hashed slot is not BIGINT.
    """
    kind = field.type
    if field.name in hashed and not (pa.types.is_int64(kind) or (is_list(kind) and pa.types.is_int64(kind.value_type))):
        message = f"{HASHED} expects a BIGINT or array<bigint> column; {field.name} is {type_words(kind)}."
        raise StatementError(message, subject=HASHED)
    if is_category(kind):
        return CATEGORICAL
    if is_number(kind):
        return CONTINUOUS
    if is_list(kind) and is_category(kind.value_type):
        return MULTI
    if is_list(kind) and is_number(kind.value_type):
        return VECTOR
    if pa.types.is_map(kind) and is_category(kind.key_type) and is_weight(kind.item_type):
        return WEIGHTED
    name = field.name
    remedy = (
        f"Select its fields ({name}.{kind.field(0).name} AS {name}_{kind.field(0).name}, ...) or to_json({name})"
        if pa.types.is_struct(kind) and kind.num_fields
        else "Cast it (strings, integers, booleans and dates are categories; float and decimal continuous; arrays "
        "of categories and map<string, float> multi-valued; array<float> a vector)"
    )
    raise StatementError(
        f"Column {name} has type {type_words(kind)}, which is no kind of slot. {remedy}, or name it in IGNORE."
    )


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_weight(kind: pa.DataType) -> bool:
    return is_number(kind) or bool(pa.types.is_integer(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def require_number(field: pa.Field, role: Subject) -> None:
    if not (is_number(field.type) or pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)):
        raise StatementError(
            f"{role} expects a number or boolean; {field.name} is {type_words(field.type)}. CAST it in the query.", subject=role
        )


def require_time(field: pa.Field) -> None:
    t = pa.types
    if not (t.is_timestamp(field.type) or t.is_date(field.type) or t.is_integer(field.type)):
        raise StatementError(
            f"{TIME} expects a timestamp, a date, or seconds since 1970 as an integer; {field.name} is "
            f"{type_words(field.type)}.",
            subject=TIME,
        )


def require_value(field: pa.Field, role: Subject) -> None:
    """Refuse a column whose values have no text: groups and segments are told apart by it."""
    kind, t = field.type, pa.types
    if not (is_category(kind) or is_number(kind) or t.is_timestamp(kind) or t.is_time(kind)):
        raise StatementError(
            f"{role} expects a string, number, boolean, date or timestamp; {field.name} is {type_words(kind)}. "
            "Select a field or element of it, hex() of a BINARY, or CAST it in the query.",
            subject=role,
        )
