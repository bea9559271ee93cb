"""The WITH queries that a call of ML.* can see, put in front of the call's own query, which runs apart from its statement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .cursor import Cursor
from .lexer import tokenize
from .passage import Passage


class Cte(NamedTuple):
    """A query of a WITH clause: its name, its definition `name [(columns)] AS (...)`, and where its scope starts and ends."""

    name: str
    definition: Passage
    start: int
    end: int


def inlined(query: Passage, around: Passage, view: str) -> Passage:
    """Return a call's query with the WITH queries of the statement around it that it names.

    Args:
        query: the call's query.
        around: the statement, in which the call is replaced by `view`.
    """
    place = around.text.index(view)
    visible = {cte.name: cte.definition for cte in ctes(around) if cte.start <= place < cte.end}
    tokens = tokenize(query)
    own = {cte.name for cte in ctes(query)}
    named = {token.name.lower() for token in tokens if token.kind in ("word", "quoted")}
    if not named & visible.keys() - own:
        return query
    definitions = [definition for name, definition in visible.items() if name not in own]
    head = [query.inserted("WITH ", 0), definitions[0]]
    for definition in definitions[1:]:
        head += [query.inserted(", ", 0), definition]
    if tokens[0].text.upper() == "WITH":
        return head[0].joined(*head[1:], query.inserted(", ", 0), query.cut(tokens[0].end, len(query.text)))
    return head[0].joined(*head[1:], query.inserted(" ", 0), query)


def ctes(passage: Passage) -> Iterator[Cte]:
    """Find the queries of every WITH clause of a text."""
    cursor = Cursor(passage, tokenize(passage))
    enclosing: list[int] = []
    for index, token in enumerate(cursor.tokens):
        cursor.index = index
        if token.text == "(" and token.kind == "symbol":
            enclosing.append(cursor.closing())
        elif enclosing and index == enclosing[-1]:
            enclosing.pop()
        elif cursor.accept("WITH"):
            yield from clause(cursor, cursor.tokens[enclosing[-1]].start if enclosing else len(passage.text))


def clause(cursor: Cursor, end: int) -> Iterator[Cte]:
    """Read the queries of one WITH clause whose statement ends at `end`; nothing where it is another WITH."""
    cursor.accept("RECURSIVE")
    while cursor.next_kind in ("word", "quoted"):
        first = cursor.tokens[cursor.index]
        cursor.index += 1
        if cursor.peek("("):
            cursor.parenthesised()
        if not cursor.accept("AS") or not cursor.peek("("):
            return
        cursor.parenthesised()
        start = cursor.tokens[cursor.index - 1].end
        yield Cte(first.name.lower(), cursor.passage.cut(first.start, start), start, end)
        if not cursor.accept(","):
            return
