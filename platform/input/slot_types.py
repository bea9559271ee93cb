"""Types of columns: the kind of slot that each makes, and the types that a role takes."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from ..errors import StatementError, Subject
from ..spark_types import is_category, type_words
from .kinds import kind_accepting, words_for
from .kinds.base import Kind
from .kinds.types import is_list, is_number
from .roles import HASHED, TIME


def kind_of(field: pa.Field, hashed: Iterable[str]) -> Kind:
    """Return the slot kind of a column that no option names.

    Raises:
        StatementError: no kind accepts the type, or a hashed slot is not BIGINT.
    """
    check_ids(field, hashed, HASHED)
    type, name = field.type, field.name
    if (kind := kind_accepting(type, "")) is not None:
        return kind
    remedy = (
        f"Select its fields ({name}.{type.field(0).name} AS {name}_{type.field(0).name}, ...) or to_json({name})"
        if pa.types.is_struct(type) and type.num_fields
        else f"Cast it ({words_for('')})"
    )
    raise StatementError(f"Column {name} has type {type_words(type)}, which cannot be a slot. {remedy}, or name it in IGNORE.")


def kind_in_role(field: pa.Field, hashed: Iterable[str], role: str, subject: Subject) -> Kind:
    """Return the slot kind of a column to which an option gives a role.

    Raises:
        StatementError: no kind accepts the type in this role, or a hashed slot is not BIGINT.
    """
    check_ids(field, hashed, HASHED)
    if (kind := kind_accepting(field.type, role)) is not None:
        return kind
    message = f"{subject} expects {words_for(role)}; {field.name} is {words_of(field.type)}. CAST it in the query."
    raise StatementError(message, subject=subject)


def check_ids(field: pa.Field, ids: Iterable[str], setting: Subject) -> None:
    """Refuse a column of ready-made ids that is not BIGINT."""
    type = field.type
    if field.name in ids and not (pa.types.is_int64(type) or (is_list(type) and pa.types.is_int64(type.value_type))):
        message = f"{setting} expects a BIGINT or array<bigint> column; {field.name} is {type_words(type)}."
        raise StatementError(message, subject=setting)


def words_of(type: pa.DataType) -> str:
    """Return a type as messages call it."""
    return "NULL without a type" if pa.types.is_null(type) else type_words(type)


def require_number(field: pa.Field, role: Subject) -> None:
    if not (is_number(field.type) or pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)):
        raise StatementError(
            f"{role} expects a number or boolean; {field.name} is {words_of(field.type)}. CAST it in the query.", subject=role
        )


def require_classes(field: pa.Field, role: Subject) -> None:
    """Refuse a column that cannot be a label with classes."""
    if not (is_text(field.type) or pa.types.is_integer(field.type)):
        raise StatementError(
            f"{role} has classes, which are texts or integers; {field.name} is {words_of(field.type)}. CAST it in the query.",
            subject=role,
        )


def is_text(kind: pa.DataType) -> bool:
    """Return whether values are text, as dictionaries or not."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def require_time(field: pa.Field) -> None:
    t = pa.types
    if not (t.is_timestamp(field.type) or t.is_date(field.type) or t.is_integer(field.type)):
        raise StatementError(
            f"{TIME} expects a timestamp, a date, or seconds since 1970 as an integer; {field.name} is "
            f"{type_words(field.type)}.",
            subject=TIME,
        )


def has_text(kind: pa.DataType) -> bool:
    """Return whether values of a type have a text, by which groups and segments are distinguished."""
    return is_category(kind) or is_number(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind)


def require_value(field: pa.Field, role: Subject) -> None:
    """Refuse a column whose values have no text."""
    kind = field.type
    if not has_text(kind):
        raise StatementError(
            f"{role} expects a string, number, boolean, date or timestamp; {field.name} is {type_words(kind)}. "
            "Select a field or element of it, hex() of a BINARY, or CAST it in the query.",
            subject=role,
        )
