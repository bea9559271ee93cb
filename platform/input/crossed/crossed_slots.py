"""CROSS: combinations of slots, which are slots of their own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from ...errors import StatementError, suggestion
from ..kinds import kind_named
from ..kinds.base import BagKind
from ..kinds.categorical import CATEGORICAL
from ..kinds.multi import MULTI
from ..kinds.weighted import WEIGHTED
from ..slot import Slot
from .terms import Term

MOST_CROSSES = 1000


def crosses_of(slots: Sequence[Slot], terms: Sequence[Term]) -> tuple[Slot, ...]:
    """Return the crosses of a query's slots, numbered after them.

    Raises:
        StatementError: a term names a column that cannot be crossed, makes no cross, or makes one that exists already.
    """
    known = {slot.name.lower(): slot for slot in slots}
    made: dict[frozenset[str], Slot] = {}
    numbers = itertools.count(1 + max((slot.number for slot in slots), default=-1))
    for term in terms:
        found = members_of(term, known)
        if len(made) + (count := math.comb(len(found), term.order)) > MOST_CROSSES:
            made_of = f"{count:,} crosses of {len(found)} slots"
            message = f"{term.subject} makes {made_of}; a model has at most {MOST_CROSSES:,}. Name the slots that matter."
            raise StatementError(message, subject=term.subject)
        for members in itertools.combinations(found, term.order):
            slot = cross(members, next(numbers))
            if slot.name.lower() in known:
                message = f"{term.subject} makes the slot {slot.name}, and the query returns it. Rename it with AS."
                raise StatementError(message, subject=term.subject)
            if (twin := made.setdefault(frozenset(slot.members), slot)) is not slot:
                message = f"{term.subject} makes {slot.name}, and {twin.name} is the same cross. Leave one out."
                raise StatementError(message, subject=term.subject)
    return tuple(made.values())


def members_of(term: Term, known: Mapping[str, Slot]) -> list[Slot]:
    """Return the slots that a term combines."""
    if not term.names:
        found = [slot for slot in known.values() if can_be_crossed(slot)]
        if len(found) < term.order:
            message = f"{term.subject} needs {term.order} slots of categories; the query returns {len(found)}."
            raise StatementError(message, subject=term.subject)
        return found
    return list(named(term, known))


def named(term: Term, known: Mapping[str, Slot]) -> Iterator[Slot]:
    for name in term.names:
        if (slot := known.get(name.lower())) is None:
            valid = [one.name for one in known.values() if can_be_crossed(one)]
            message = f"{term.subject} names {name!r}, which is not learned from.{suggestion(name, valid)}"
            raise StatementError(message, subject=term.subject)
        if not can_be_crossed(slot):
            remedy = "Leave it out"
            if not kind_named(slot.kind).features:
                remedy = f"Cut its numbers into parts first: bucketize({slot.name}, ...) in TRANSFORM or the query"
            raise StatementError(
                f"{term.subject} combines categories, and arrays and maps of them; {slot.name} is {slot.kind} ({slot.type}). "
                f"{remedy}.",
                subject=term.subject,
            )
        yield slot


def can_be_crossed(slot: Slot) -> bool:
    """Return whether the values of a slot are texts that a cross can join; other scalar kinds have their own."""
    kind = kind_named(slot.kind)
    return (kind is CATEGORICAL or (isinstance(kind, BagKind) and kind.features)) and not slot.role


def cross(members: Sequence[Slot], number: int) -> Slot:
    """Return the slot of a combination: of maps it has their weights, of arrays any number of values."""
    names = tuple(slot.name for slot in members)
    kinds = {slot.kind: kind_named(slot.kind) for slot in members}
    several = MULTI.name if any(isinstance(kind, BagKind) for kind in kinds.values()) else CATEGORICAL.name
    kind = WEIGHTED.name if WEIGHTED.name in kinds else several
    name = "*".join(names)
    return Slot(name, kind, "string", number, name, members=names)
