"""The columns of a query whose rows are edges of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ....algorithms.base import Algorithm
from ....algorithms.graphs.limbs import NODE
from ...engines.base import check_names_apart
from ...errors import StatementError, Subject
from ...histories.bound import BoundHistory
from ...input.columns import Columns
from ...input.kinds.base import ScalarKind
from ...input.role_columns import check_types, found_roles
from ...input.roles import CROSS, GROUP, HASHED, IGNORE, RAW, SHARE, SOURCE, TARGET, TASK, TIME, VECTORS, WEIGHT, Roles
from ...input.slot import Slot
from ...input.slot_types import kind_of
from ...parts import AnyPart
from ...spark_types import type_words
from .history_slots import columns_reading

if TYPE_CHECKING:
    from ....warehouse.manifest import Manifest


def columns_for(
    part: AnyPart,
    schema: pa.Schema,
    wanted: Roles,
    parent: Manifest | None,
    histories: tuple[BoundHistory, ...],
    options: Any,
) -> Columns:
    """Return the columns of a training query: slots, those of stored histories too, or for a vertex program edges.

    Raises:
        StatementError: see columns_reading and edge_columns.
    """
    if part.takes.edges:
        return edge_columns(schema, wanted, parent)
    return columns_reading(schema, wanted, parent, histories, options)


def edge_columns(schema: pa.Schema, wanted: Roles, parent: Manifest | None) -> Columns:
    """Return the roles of a query's columns for a vertex program: both ends are values of one slot.

    Raises:
        StatementError: an end is not named, or its type is none of values that are told apart; a column is left; or the
            statement says of slots what has no effect.
    """
    check_names_apart(schema)
    check_ends_named(wanted)
    own = {name.lower(): name for name in schema.names}
    found = found_roles(wanted, own, own, parent)
    check_types(schema, found, False)
    ends = found[SOURCE][0], found[TARGET][0]
    if ends[0] == ends[1]:
        raise StatementError(f"{SOURCE} and {TARGET} both name {ends[0]!r}; an edge has two columns.", subject=TARGET)
    weight, time = (found[role][0] if role in found else None for role in (WEIGHT, TIME))
    check_effects(wanted, found)
    for end, role in zip(ends, (SOURCE, TARGET), strict=True):
        kind = kind_of(schema.field(end), ())
        if not isinstance(kind, ScalarKind):
            message = (
                f"{role} expects texts, integers, dates or booleans, which name vertices; {end} is "
                f"{type_words(schema.field(end).type)}. CAST it AS STRING in the query."
            )
            raise StatementError(message, subject=role)
    named = {*ends, weight, time, *found[IGNORE]}
    if left := [name for name in schema.names if name not in named]:
        raise StatementError(
            f"{wanted.algorithm} learns from edges alone, and the query returns {', '.join(left)} too. Name a weight in "
            f"{WEIGHT}, others in {IGNORE}, or leave them out."
        )
    source = schema.field(ends[0])
    slot = Slot(NODE, kind_of(source, ()).name, type_words(source.type), 0, NODE)
    return Columns((slot,), (), weight, time, None, found[IGNORE], False, ends=ends)


def check_ends_named(wanted: Roles) -> None:
    """Require both ends of edges.

    Raises:
        StatementError: one is not named.
    """
    if wanted.source is None or wanted.target is None:
        raise StatementError(
            f"{wanted.algorithm} learns from edges: name the columns of both ends, {SOURCE} `column` {TARGET} `column`.",
            subject=Subject("USING", wanted.algorithm),
        )


def check_effects(wanted: Roles, found: dict[Subject, tuple[str, ...]]) -> None:
    """Refuse what a statement says of slots and metrics, which a vertex program has not."""
    given = [role for role in (HASHED, RAW, SHARE) if found[role]] + ([TASK] if wanted.multiclass else [])
    given += [role for role, names in ((CROSS, wanted.crosses), (VECTORS, wanted.vectors), (GROUP, found.get(GROUP))) if names]
    if TIME in found and (wanted.weight or "") not in wanted.computed:
        given.append(TIME)
    if given:
        message = f"{given[0]} has no effect: {wanted.algorithm} learns from the ends of edges alone. Leave it out."
        raise StatementError(message, subject=given[0])


def checked_ends(algorithm: Algorithm, wanted: Roles) -> Algorithm:
    """Return an algorithm whose edges have both ends named, and one of other rows whose ends are not named.

    Raises:
        StatementError: they are missing, or have no effect.
    """
    if algorithm.traits.edges:
        check_ends_named(wanted)
        return algorithm
    for role, column in ((SOURCE, wanted.source), (TARGET, wanted.target)):
        if column is not None:
            message = (
                f"{role} names the end of an edge, and {wanted.algorithm} does not learn from edges. Leave it out: {column} is "
                "a slot without it."
            )
            raise StatementError(message, subject=role)
    return algorithm
