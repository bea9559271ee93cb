"""Names of the warehouse's tables in Spark's catalog, and what a statement names."""

from __future__ import annotations

import zlib

from ...errors import StatementError
from ...quoting import quoted
from ..spark_sql.lexer import tokens_of
from ..spark_sql.statements import opened, relation
from ..spark_sql.tree import Name

SPARKS = "spark_catalog"

HERE = f"{SPARKS}.default"


# What Spark would do to a name in its catalog, or refuse in words about catalogs.
CHANGES = (
    "ALTER TABLE",
    "ALTER VIEW",
    "COMMENT ON TABLE",
    "CREATE OR REPLACE VIEW",
    "DELETE FROM",
    "DROP TABLE",
    "DROP VIEW",
    "MERGE INTO",
    "TRUNCATE TABLE",
    "UPDATE",
)


def changed_name(text: str) -> Name | None:
    """Return the name that a statement changes in Spark's catalog; None for one of another database, and other statements."""
    cursor = opened(text)
    if not any(cursor.accept(*words.split()) for words in CHANGES):
        return None
    cursor.accept("IF", "EXISTS")
    try:
        return relation(cursor)
    except StatementError:
        return None


def state_of(content: object) -> str:
    """Return a checksum of a view or of a list of files."""
    return str(zlib.crc32(repr(content).encode()))


def words_of(text: str) -> set[str]:
    """Return the words of a statement in lower case, names among them."""
    return {token.name.lower() for token in tokens_of(text) if token.kind in ("word", "quoted")}


def full(name: str) -> str:
    """Return a table's name with catalog and database."""
    return f"{HERE}.{quoted(name)}"
