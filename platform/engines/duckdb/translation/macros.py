"""The macros of macros.sql, made in a database when a query first calls them: to make all of them takes a tenth of a second."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BEGIN = re.compile(r"^CREATE MACRO (?=(\w+))", re.MULTILINE)
WORD = re.compile(r"\w+")

_, *PARTS = BEGIN.split((Path(__file__).parent / "macros.sql").read_text(encoding="utf-8"))
MACROS = {name: f"CREATE OR REPLACE MACRO {rest}" for name, rest in zip(PARTS[::2], PARTS[1::2], strict=True)}
SPARK_MACROS = frozenset(name.removeprefix("spark_") for name in MACROS if name.startswith("spark_"))


class Made:
    """The macros that a database has."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._lock = threading.Lock()

    def add(self, sql: str, connection: DuckDBPyConnection) -> None:
        """Make those that a query calls and the database lacks."""
        with self._lock:
            for name in called(sql):
                if name not in self._names:
                    connection.execute(MACROS[name])
                    self._names.add(name)


MADE: WeakKeyDictionary[DuckDBPyConnection, Made] = WeakKeyDictionary()


def make_macros(sql: str, connection: DuckDBPyConnection) -> None:
    """Make the macros that a query in DuckDB's SQL calls."""
    MADE.setdefault(connection, Made()).add(sql, connection)


def share_macros(connection: DuckDBPyConnection, other: DuckDBPyConnection) -> None:
    """Take note that another connection is one to the same database."""
    MADE[other] = MADE.setdefault(connection, Made())


def called(sql: str) -> Iterator[str]:
    """Yield the macros that SQL calls, each after those that it calls itself."""
    for word in dict.fromkeys(WORD.findall(sql.lower())):
        if word in MACROS:
            yield from called(MACROS[word].partition("(")[2])
            yield word
