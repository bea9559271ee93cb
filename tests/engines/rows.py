"""What a statement answers, as plain rows."""

from __future__ import annotations

from typing import Any

from xpsql.platform.engines.duckdb import DuckDBEngine


def rows(engine: DuckDBEngine, statement: str) -> list[tuple[Any, ...]]:
    table = engine.execute(statement)
    assert table is not None
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
