"""The folders that statements of Spark's own name to be written."""

from __future__ import annotations

import itertools

from ..spark_sql.lexer import unquote
from ..spark_sql.statements import opened
from ..targets import check_place

WRITES = ("INSERT", "CREATE TABLE", "CREATE EXTERNAL TABLE", "CREATE OR REPLACE TABLE", "REPLACE TABLE", "ALTER TABLE")
"""How statements begin that let Spark write to a folder that they name."""
PLACES = ("DIRECTORY", "LOCATION", "PATH")


def check_places(text: str) -> None:
    """Refuse a statement that lets Spark write to a folder in a warehouse.

    Raises:
        StatementError: at the folder.
    """
    cursor = opened(text)
    if not any(cursor.peek(*words.split()) for words in WRITES):
        return
    for before, token in itertools.pairwise(token for token in cursor.tokens if token.text != "="):
        if token.kind == "string" and before.text.strip("`'\"").upper() in PLACES:
            at = cursor.passage.position(token.start, token.text)
            check_place(unquote(token.text), "The folder that this statement writes to", at)
