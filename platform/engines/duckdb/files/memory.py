"""Tables and datasets of Arrow as relations: DuckDB scans Arrow's own memory, and of a dataset what a query needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from ...base import internal_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyarrow.dataset import Dataset


@dataclass(frozen=True)
class MemorySource:
    """A table that the session was given, or a dataset of files.

    Attributes:
        rows: its rows, which no query copies.
        name: the name of the rows in a connection.
    """

    rows: pa.Table | Dataset
    name: str = field(default_factory=lambda: internal_name("rows"))

    def open(self, *connections: DuckDBPyConnection) -> str:
        """Let connections scan the rows until they close, and return the query of them."""
        for connection in connections:
            connection.register(self.name, self.rows)
        return f"SELECT * FROM {self.name}"
