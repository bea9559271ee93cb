"""The columns of roles: which ones a query returns, and whether they are what their roles need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from ...warehouse.manifest import Manifest
from ..errors import StatementError, Subject, suggestion
from .roles import BY, GROUP, HASHED, IGNORE, LABEL, RAW, SHARE, SOURCE, TARGET, TIME, WEIGHT, Roles
from .slot_types import require_number, require_time, require_value


def found_roles(
    wanted: Roles, own: Mapping[str, str], shareable: Mapping[str, str], parent: Manifest | None
) -> dict[Subject, tuple[str, ...]]:
    """Return the columns of each role as the query names them, from names without case.

    Args:
        own: the query's columns; shareable: these, and their fields.
    """
    of_examples = ((WEIGHT, wanted.weight), (TIME, wanted.time), (GROUP, wanted.group), (BY, wanted.by))
    single = (*of_examples, (SOURCE, wanted.source), (TARGET, wanted.target))
    roles = [(LABEL, wanted.labels), (IGNORE, wanted.ignore), *((role, (column,)) for role, column in single if column)]
    roles += [(HASHED, wanted.hashed), (RAW, wanted.raw), (SHARE, tuple(column for pair in wanted.share for column in pair))]
    roles += [(wanted.subject(named), named.columns) for named in wanted.named]
    for role, columns in roles:
        for column in columns:
            if column.lower() not in (shareable if role == SHARE else own):
                before = f" as in version {parent.version}" if parent is not None and column in roles_before(parent) else ""
                asked = f"{role} names {column!r}{before}"
                if not before and wanted.labels == ("label",) and role == LABEL:
                    asked = "Without a clause LABEL the label is the column 'label'"
                history, dot, _ = column.partition(".")
                stored = f", and {history} is no stored history" if dot and role.part is not None else ""
                message = f"{asked}, which the query does not return{stored}.{suggestion(column, own.values())}"
                raise StatementError(message, subject=role)
    found = {role: tuple(shareable[column.lower()] for column in columns) for role, columns in roles}
    for role in (LABEL, IGNORE):
        if twice := sorted({name for name in found[role] if found[role].count(name) > 1}):
            raise StatementError(f"{role} names {', '.join(twice)} twice; name each column once.", subject=role)
    check_roles(found)
    return found


def check_types(schema: pa.Schema, found: Mapping[Subject, Sequence[str]], classified: bool) -> None:
    """Refuse roles of columns whose types they cannot have; labels of several classes may be anything."""
    for role in (LABEL, WEIGHT):
        for column in found.get(role, ()):
            if role != LABEL or not classified:
                require_number(schema.field(column), role)
    for column in found.get(TIME, ()):
        require_time(schema.field(column))
    for role in (GROUP, BY):
        for column in found.get(role, ()):
            require_value(schema.field(column), role)


def check_slots_left(
    schema: pa.Schema,
    taken: Mapping[str, Subject],
    found: Mapping[Subject, Sequence[str]],
    roles: Sequence[Subject],
) -> None:
    """Refuse roles of slots that name a column which is none, and a query without any."""
    for role in roles:
        for column in found[role]:
            if column in taken:
                message = f"{role} names {column!r}, which is no slot: {taken[column]} names it, too."
                raise StatementError(message, subject=role)
    if all(name in taken for name in schema.names):
        raise StatementError(
            "The query returns no column to learn from, apart from label, weight, time, group and ignored columns."
        )


def roles_before(parent: Manifest) -> set[str | None]:
    """Return the columns that have a role in a version; CONTINUE keeps them where it names no others."""
    roles = parent.roles
    return {*roles.labels, *roles.ignore, roles.weight, roles.time, roles.group, roles.by}


def check_roles(roles: Mapping[Subject, Sequence[str]]) -> None:
    """Refuse to ignore a column that is used in another role, and a label that is.

    Args:
        roles: their columns, IGNORE's among them.
    """
    for role in (LABEL, WEIGHT, TIME, GROUP, SOURCE, TARGET):
        for column in roles.get(role, ()):
            if column in roles[IGNORE]:
                raise StatementError(
                    f"{IGNORE} and {role} both name {column!r}. Leave it out of IGNORE: a {role} is never learned from.",
                    subject=IGNORE,
                )
            if role != LABEL and column in roles[LABEL]:
                message = f"{LABEL} and {role} both name {column!r}. Name another column in {role}, or leave {role} out."
                raise StatementError(message, subject=role)
