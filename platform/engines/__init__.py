"""Engines: where queries run and tasks are placed. A new one is a room, and a line here."""

from __future__ import annotations

from typing import Any

from .duckdb.kind import DUCKDB
from .kind import EngineKind
from .spark.kind import SPARK

ENGINES: tuple[EngineKind[Any], ...] = (DUCKDB, SPARK)
"""The first engine is the default, unless another one is named or prefers the session."""
