"""The binding of slots to vectors with ids, as WITH (vectors = (slot IN name)) says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....warehouse.manifest import Manifest
from ...errors import StatementError, Subject, suggestion
from ..kinds import kind_named
from ..roles import VECTORS, Roles
from ..slot import Slot
from .table import Side

CLAUSE, HIDDEN = Subject("VECTORS"), Subject("WITH", option="vectors_hidden")


def sides_of(wanted: Roles, slots: Sequence[Slot], parent: Manifest | None) -> tuple[Side, ...]:
    """Return the vectors with ids that values of slots have, in the order of their names' first use.

    Args:
        parent: the version that is continued, which has vectors of its own.

    Raises:
        StatementError: a name is not a slot, or its values cannot have vectors; a name has no vectors, or vectors have no slot.
    """
    before = {vectors.name: vectors for vectors in parent.vectors} if parent is not None else {}
    names, found = {*before, *(name.lower() for name in wanted.named_vectors)}, dict[str, list[str]]()
    for slot, name in wanted.vectors:
        own = next((one for one in slots if one.name.lower() == slot.lower()), None)
        if own is None:
            known = suggestion(slot, (one.name for one in slots))
            raise StatementError(f"{VECTORS} names {slot!r}, which is no slot.{known}", subject=VECTORS)
        kind = kind_named(own.kind)
        if own.members or kind.raw or not kind.features:
            what = "a cross" if own.members else kind.name
            message = f"{VECTORS} names {own.name}, whose kind is {what}: an id is a categorical value, or one of an array."
            raise StatementError(message, subject=VECTORS)
        if name.lower() not in names:
            remedy = suggestion(name, names) or f" Add VECTORS {name} AS (SELECT id, vector FROM ...)."
            raise StatementError(f"{VECTORS} names {name!r}, and no clause VECTORS does.{remedy}", subject=VECTORS)
        found.setdefault(name.lower(), []).append(own.name)
    if any(isinstance(units, bool) or units < 1 for units in wanted.hidden):
        got = ", ".join(map(str, wanted.hidden))
        message = f"{HIDDEN} expects whole numbers of units, 1 or more, like (64); got ({got})."
        raise StatementError(message, subject=HIDDEN)
    sides = tuple(Side(name, tuple(dict.fromkeys(own)), wanted.hidden) for name, own in found.items())
    if parent is not None:
        check_kept(sides, parent)
    if unused := sorted(names - found.keys()):
        message = f"{CLAUSE} {unused[0]} is used by no slot. Say which has an id of it: WITH (vectors = (slot IN {unused[0]}))."
        raise StatementError(message, subject=CLAUSE)
    return tuple(replace(side, elements=before[side.name].elements if side.name in before else 0) for side in sides)


def check_kept(sides: Sequence[Side], parent: Manifest) -> None:
    """Refuse vectors that differ from the continued version's."""
    if [(one.name, one.slots, one.hidden) for one in sides] != [(one.name, one.slots, one.hidden) for one in parent.vectors]:
        had = ", ".join(f"{slot} IN {one.name}" for one in parent.vectors for slot in one.slots) or "none"
        raise StatementError(
            f"CONTINUE keeps the vectors of version {parent.version}, ({had}), and their layers. Leave these options out, or "
            "TRAIN a new model.",
            subject=VECTORS,
        )
