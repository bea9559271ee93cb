"""CROSS: which slots are combined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...engines.spark_sql.cursor import Cursor
from ...errors import Position, StatementError
from ...input.crossed.terms import MOST_MEMBERS, Term
from ...options import Value
from .base import Clause, always, of_type


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


def terms_of(written: Mapping[str, Value]) -> tuple[Term, ...]:
    """Return the terms of what was read."""
    return tuple(term.value for term in written.values())


def texts(terms: tuple[Term, ...]) -> list[str]:
    return [term.text for term in terms]


def of_texts(value: Any) -> tuple[Term, ...]:
    """Return the terms that a manifest keeps.

    Raises:
        ValueError: they are none.
    """
    try:
        return tuple(read_term(Cursor.of(text))[1] for text in of_type(tuple, tuple[str, ...])(value))
    except StatementError as error:
        raise ValueError(error.message) from error


def shown(terms: tuple[Term, ...]) -> Iterator[tuple[str, str | None]]:
    yield "cross", ", ".join(texts(terms)) or None


CROSS: Clause[dict[str, Value], tuple[Term, ...]] = Clause(
    "CROSS",
    "({slot * slot [* ...] | (slot, ...) ^ n | * ^ n}, ...)",
    "Combinations of slots as slots of their own, such as `animal * food`, `(a, b, c) ^ 2` for each pair of a list, "
    "and `* ^ 2` for each pair of all: see [crosses.md](crosses.md).",
    read_crosses,
    (),
    terms_of,
    texts,
    of_texts,
    always,
    shown,
)
