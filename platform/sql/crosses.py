"""The clause CROSS, read: which slots are combined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import Position, StatementError
from ..input.crossed.terms import MOST_MEMBERS, Term
from ..options import Value
from .cursor import Cursor

if TYPE_CHECKING:
    from ...warehouse.manifest import Manifest


def read_crosses(cursor: Cursor) -> dict[str, Value]:
    """Read (term, ...), each under its text.

    Raises:
        StatementError: a term combines one slot, more than four, or a slot with itself, or occurs twice.
    """
    terms: dict[str, Value] = {}
    cursor.expect("(")
    for position, term in cursor.listed(lambda: read_term(cursor)):
        if term.text in terms:
            raise StatementError(f"CROSS has {term.text} twice. Leave one out.", position)
        terms[term.text] = Value(term, position)
    cursor.expect(")")
    return terms


def read_term(cursor: Cursor) -> tuple[Position, Term]:
    """Read slot * slot * ..., (slot, ...) ^ n, or * ^ n."""
    first = cursor.index
    names: tuple[str, ...] = ()
    if cursor.accept("*"):
        order = read_power(cursor)
    elif cursor.accept("("):
        names = cursor.columns("a slot")
        cursor.expect(")")
        order = read_power(cursor)
    else:
        found = [cursor.identifier("a slot, (slot, ...) ^ n, or * ^ n")]
        while cursor.accept("*"):
            found.append(cursor.identifier("a slot"))
        names, order = tuple(found), len(found)
    position = cursor.span(first)
    check(names, order, position)
    return position, Term(position.text, names, order)


def read_power(cursor: Cursor) -> int:
    cursor.expect("^")
    return cursor.integer("how many slots each cross combines, 2 to 4")


def check(names: Sequence[str], order: int, position: Position) -> None:
    """Refuse a term that can make no cross."""
    lowered = [name.lower() for name in names]
    if twice := next((name for index, name in enumerate(names) if name.lower() in lowered[:index]), None):
        message = f"A cross combines different slots, and {position.text} names {twice} twice. Leave one out."
        raise StatementError(message, position)
    if not 2 <= order <= MOST_MEMBERS:
        how = f"{position.text} combines {order}"
        raise StatementError(f"A cross combines 2 to {MOST_MEMBERS} slots; {how}. Write slot * slot, or ^ 2.", position)
    if names and order > len(names):
        message = f"{position.text} combines {order} of {len(names)} slots. Name more, or lower the power."
        raise StatementError(message, position)


def terms_of(manifest: Manifest) -> tuple[Term, ...]:
    """Return the terms that a version has."""
    return tuple(read_term(Cursor.of(text))[1] for text in manifest.crosses)


def given_terms(value: Value | None) -> tuple[Term, ...]:
    """Return the terms of a clause; none without."""
    return () if value is None else tuple(term.value for term in value.value.values())
