"""The parity table and its inputs: the sample that expressions run over, and how results are written down."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlglot import exp

from xpsql.platform.engines.spark_sql.dialect import SYNTAX as GRAMMAR
from xpsql.platform.engines.spark_sql.dialect import parse

HERE = Path(__file__).parent
TABLE = HERE / "parity.json"
QUERIES = ("SELECT ", "WITH ")
SYNTAX = {name.lower() for name in GRAMMAR}


def sample() -> str:
    """Return the query of the rows that expressions run over."""
    return (HERE / "sample.sql").read_text(encoding="utf-8")


def expressions() -> list[str]:
    """Return the lines of expressions.sql, without comments and empty lines."""
    lines = (line.strip() for line in (HERE / "expressions.sql").read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("--")]


def query(expression: str) -> str:
    """Return the query that answers a line."""
    return expression if expression.startswith(QUERIES) else f"SELECT {expression} AS value FROM sample ORDER BY id"


def called(expression: str) -> set[str]:
    """Return the names of the functions that a line calls."""
    return {call.name.lower() for call in parse(query(expression)).find_all(exp.Anonymous)}


def canonical(rows: pa.Table) -> list[list[Any]]:
    """Return rows as JSON values, the same for equal values whatever engine made them."""
    columns = [[plain(value) for value in column.to_pylist()] for column in rows.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def plain(value: Any) -> Any:
    """Return a value as JSON: exact for decimals, binaries and times, 15 digits for doubles, maps as lists of pairs."""
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return f"{value:.14e}" if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f} s"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value]
