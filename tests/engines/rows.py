"""What a statement answers, as plain rows."""

from __future__ import annotations

from typing import Any

from xpsql.platform.engines.base import Engine


def rows(engine: Engine, statement: str) -> list[tuple[Any, ...]]:
    table = engine.execute(statement)
    assert table is not None
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
