"""The embedded engine's entry: what a session knows about it before DuckDB is imported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..kind import EngineKind

if TYPE_CHECKING:
    from ..base import Engine


@dataclass(frozen=True)
class DuckDBOptions:
    """The embedded engine has no options."""


def open_duckdb(warehouse: Path, options: DuckDBOptions) -> Engine:
    """Open the embedded engine on a warehouse."""
    from .engine import DuckDBEngine

    return DuckDBEngine(warehouse)


DUCKDB = EngineKind("duckdb", DuckDBOptions, open_duckdb)
