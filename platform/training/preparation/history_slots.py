"""Stored histories as slots: what rows must have for them, the columns of their fields, and whose vectors these have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ....warehouse.manifest import Manifest
from ...errors import StatementError, Subject, suggestion
from ...histories.bound import BoundHistory
from ...histories.event_image import EventImage
from ...input.columns import Columns
from ...input.roles import Roles
from ...input.slots import columns_of
from ...options import Named
from ...spark_types import is_category, type_words


def columns_reading(
    schema: pa.Schema, roles: Roles, parent: Manifest | None, histories: tuple[BoundHistory, ...], options: Any
) -> Columns:
    """Find the slots and roles of a training query, and of the stored histories that options of its algorithm name.

    Raises:
        StatementError: see columns_of and with_histories.
    """
    if not histories:
        return columns_of(schema, roles, parent)
    target = getattr(options, "target", ()) or (*getattr(options, "item", ()), *getattr(options, "actions", ()))
    schema, roles = with_histories(schema, histories, roles), with_shares(roles, histories, target)
    return replace(columns_of(schema, roles, parent), histories=histories)


def with_histories(schema: pa.Schema, histories: Sequence[BoundHistory], roles: Roles) -> pa.Schema:
    """Return the columns of a query with the fields of stored histories.

    Raises:
        StatementError: rows lack the user or the time, or have them in another type; a column has a history's name; or there is
            no such field.
    """
    for history in histories:
        named = next(one for one in roles.named if set(map(str.lower, one.columns)) & history.columns.keys())
        image, subject = history.image(), roles.subject(named)
        check_names(schema, history, subject)
        check_rows(schema, history, image, subject)
        for column, name in history.columns.items():
            schema = schema.append(pa.field(column, pa.list_(field_type(image, history, name, subject))))
    return schema


def check_names(schema: pa.Schema, history: BoundHistory, subject: Subject) -> None:
    """Refuse a query with a column that has the name of a history, or of a field of it."""
    names = {history.entry.name, *history.columns}
    for name in schema.names:
        if name.lower() in names:
            raise StatementError(
                f"{subject} names {', '.join(history.columns)}: the query returns a column {name}, and there is a stored "
                f"history {history.entry.name}. Give the column another name with AS.",
                subject=subject,
            )


def check_rows(schema: pa.Schema, history: BoundHistory, image: EventImage, subject: Subject) -> None:
    """Refuse rows without the user or the time of a history, or with one of another type."""
    own = {name.lower(): name for name in schema.names}
    clauses = (history.entry.partition, "PARTITION BY", image.user_type), (history.entry.order, "ORDER BY", image.time_type)
    for column, clause, wanted in clauses:
        if column.lower() not in own:
            raise StatementError(
                f"{subject} names the stored history {history.entry.name}, which is {clause} {column}; the query returns no "
                f"column {column}.{suggestion(column, schema.names)} Return it, or give what it is called this name with AS.",
                subject=subject,
            )
        found = schema.field(own[column.lower()]).type
        if not alike(found, wanted):
            raise StatementError(
                f"{subject} names the stored history {history.entry.name}, whose {column} is {type_words(wanted)}; the query's "
                f"{column} is {type_words(found)}. CAST it in the query.",
                subject=subject,
            )


def alike(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of a type are looked up among those of another."""
    t, found = pa.types, found.value_type if pa.types.is_dictionary(found) else found
    families = t.is_integer, t.is_timestamp, t.is_date, lambda kind: t.is_string(kind) or t.is_large_string(kind)
    return any(family(found) and family(wanted) for family in families)


def field_type(image: EventImage, history: BoundHistory, name: str, subject: Subject) -> pa.DataType:
    """Return the type of a field's values, or of the times that events have."""
    if name == history.entry.order:
        return image.time_type
    if name not in image.types:
        raise StatementError(
            f"{subject} names {history.entry.name}.{name}, whose type no slot has: a field is a text, a whole number, a "
            "boolean or a date. CAST it in CREATE HISTORY.",
            subject=subject,
        )
    if not is_category(kind := image.types[name]):
        raise StatementError(
            f"{subject} names {history.entry.name}.{name}, which is {type_words(kind)}; a field is a text, a whole number, a "
            "boolean or a date. CAST or bucketize it in CREATE HISTORY.",
            subject=subject,
        )
    return kind


def with_shares(roles: Roles, histories: Sequence[BoundHistory], target: Sequence[str]) -> Roles:
    """Return roles in which fields of a stored history have the vectors of the target's slots, in order, unless WITH
    (share) says otherwise, and the time that a history is looked up by is no slot.

    Args:
        target: the slots that an algorithm compares with a history.
    """
    known = {column.lower(): target for column, target in roles.share}
    pairs = ((a, b) for a, b in paired(roles, histories, target) if a.lower() not in known)
    shares = (*roles.share, *((a, known.get(b.lower(), b)) for a, b in pairs))
    taken = {name.lower() for name in roles.columns}
    times = dict.fromkeys(one.entry.order for one in histories if one.entry.order.lower() not in taken)
    return roles._replace(share=shares, ignore=(*roles.ignore, *times))


def paired(roles: Roles, histories: Sequence[BoundHistory], target: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the fields of stored histories, and the target's slots that stand in their places."""
    stored = {column for history in histories for column in history.columns}

    def of_history(named: Named) -> bool:
        return len(named.columns) == len(target) and named.option == "history"

    for named in filter(of_history, roles.named):
        yield from ((a, b) for a, b in zip(named.columns, target, strict=True) if a.lower() in stored)
