"""Common table expressions: the WITH queries that a call of ML.* can see, put in front of its own query, which runs
separately."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..engines.spark_sql.lexer import tokenize
from ..engines.spark_sql.passage import Passage
from .cursor import Cursor


class Cte(NamedTuple):
    """A query of a WITH clause: its name, its definition `name [(columns)] AS (...)`, and where its scope starts and ends."""

    name: str
    definition: Passage
    start: int
    end: int
    recursive: bool


def inlined(query: Passage, around: Passage, view: str) -> Passage:
    """Return a call's query with the WITH queries of the statement around it that it names.

    Args:
        query: the call's query.
        around: the statement, in which the call is replaced by `view`.
    """
    place = around.text.index(view)
    own = {cte.name: cte for cte in ctes(query)}
    visible = {cte.name: cte for cte in ctes(around) if cte.start <= place < cte.end and cte.name not in own}
    if not visible.keys() & {token.name.lower() for token in tokenize(query) if token.kind in ("word", "quoted")}:
        return query
    recursive = any(cte.recursive for cte in (*visible.values(), *own.values()))
    opening = query.inserted("WITH RECURSIVE " if recursive else "WITH ", 0)
    comma = query.inserted(", ", 0)
    definitions = [part for cte in visible.values() for part in (comma, cte.definition)][1:]
    return opening.joined(*definitions, *continuation(query))


def continuation(query: Passage) -> tuple[Passage, Passage]:
    """Return what follows a WITH query put before a query: more WITH queries of its own, or the query."""
    cursor = Cursor(query, tokenize(query))
    if not cursor.accept("WITH"):
        return query.inserted(" ", 0), query
    cursor.accept("RECURSIVE")
    return query.inserted(", ", 0), cursor.remainder()


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
    recursive = cursor.accept("RECURSIVE")
    while cursor.next_kind in ("word", "quoted"):
        first = cursor.tokens[cursor.index]
        cursor.index += 1
        if cursor.peek("("):
            cursor.parenthesised()
        if not cursor.accept("AS") or not cursor.peek("("):
            return
        cursor.parenthesised()
        start = cursor.tokens[cursor.index - 1].end
        yield Cte(first.name.lower(), cursor.passage.cut(first.start, start), start, end, recursive)
        if not cursor.accept(","):
            return
