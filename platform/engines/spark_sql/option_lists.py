"""OPTIONS (name 'value', ...) in statements on tables and views."""

from __future__ import annotations

from ...errors import Position
from .cursor import Cursor
from .lexer import unquote


def options(cursor: Cursor) -> tuple[dict[str, str], dict[str, Position]]:
    """Step over `OPTIONS (name 'value', ...)` and return the values and their places; names in lower case."""
    found: dict[str, str] = {}
    places: dict[str, Position] = {}
    cursor.expect("OPTIONS")
    cursor.expect("(")
    while not cursor.accept(")"):
        first = cursor.index
        name = plain(cursor, "the name of an option")
        while cursor.accept("."):
            name += "." + plain(cursor, "the name of an option")
        cursor.accept("=")
        found[name.lower()] = plain(cursor, "a value")
        places[name.lower()] = cursor.span(first)
        if not cursor.accept(",") and not cursor.peek(")"):
            raise cursor.expected("',' or ')'")
    return found, places


def plain(cursor: Cursor, what: str) -> str:
    """Read a word, name, number or string as the text that it stands for."""
    token = cursor.take(("word", "quoted", "number", "string"), what)
    return unquote(token.text) if token.kind == "string" else token.name
