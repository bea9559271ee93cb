"""Names of the warehouse's tables in Spark's catalog, and what a statement names."""

from __future__ import annotations

import zlib

from ...quoting import quoted
from ..spark_sql.lexer import tokens_of

SPARKS = "spark_catalog"


HERE = f"{SPARKS}.default"


def state_of(content: object) -> str:
    """Return a checksum of a view or of a list of files."""
    return str(zlib.crc32(repr(content).encode()))


def words_of(text: str) -> set[str]:
    """Return the words of a statement in lower case, names among them."""
    return {token.name.lower() for token in tokens_of(text) if token.kind in ("word", "quoted")}


def full(name: str) -> str:
    """Return a table's name with catalog and database."""
    return f"{HERE}.{quoted(name)}"
