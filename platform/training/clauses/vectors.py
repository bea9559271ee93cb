"""VECTORS: vectors with ids, such as embeddings of images."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...engines.spark_sql.cursor import Cursor
from ...errors import Position, StatementError
from .base import Clause, of_type, same

NAME = re.compile(r"[a-z0-9_]+")
Queries = Mapping[str, str]


def read(cursor: Cursor) -> Queries:
    vectors: dict[str, str] = {}
    for name, query, position in cursor.listed(lambda: read_query(cursor)):
        if name in vectors:
            raise StatementError(f"VECTORS names {name} twice. Leave one out, or give it another name.", position)
        vectors[name] = query
    return vectors


def read_query(cursor: Cursor) -> tuple[str, str, Position]:
    position = cursor.position()
    name = cursor.identifier("a name of vectors").lower()
    if not NAME.fullmatch(name):
        raise StatementError(f"VECTORS expects a name of letters, digits and _, got {name!r}.", position)
    cursor.expect("AS")
    if not cursor.peek("("):
        raise cursor.expected("(query)")
    return name, cursor.parenthesised().text, position


VECTORS: Clause[Queries, Queries] = Clause(
    "VECTORS",
    "name AS (query) [, name AS (query) ...]",
    "Vectors with ids, such as embeddings of images: a query of two columns, an id and an array of numbers. "
    "`WITH (vectors = (image IN images))` says which slots hold the ids: see [vectors.md](vectors.md).",
    read,
    {},
    same,
    dict,
    of_type(dict, Mapping[str, str]),
)
