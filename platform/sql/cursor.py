"""The cursor that parsers of statements and table functions read with."""

from __future__ import annotations

from ..engines.spark_sql.cursor import Cursor

__all__ = ["Cursor"]
