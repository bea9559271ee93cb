"""Type inference for CSV columns, from all their values.

Source: the lattice of types of Spark's org.apache.spark.sql.catalyst.csv.CSVInferSchema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....spark_types import quoted
from ...waiting import awaited

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

INTEGER = r"[+-]?[0-9]+"
REAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|NaN|[+-]?Inf(inity)?"
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([ T][0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
INT, LONG, BIG, DOUBLE, DAY, MOMENT, TRUTH, TEXT = (1 << bit for bit in range(8))
# A column has the first type that takes all kinds of values found in it.
TYPES = (
    ("INTEGER", INT),
    ("BIGINT", INT | LONG),
    ("DECIMAL", INT | LONG | BIG),
    ("DOUBLE", INT | LONG | BIG | DOUBLE),
    ("DATE", DAY),
    ("TIMESTAMPTZ", DAY | MOMENT),
    ("BOOLEAN", TRUTH),
)
LONGEST_DECIMAL = 37


def inferred(connection: DuckDBPyConnection, rows: str, names: Sequence[str]) -> dict[str, str]:
    """Return the DuckDB type of each column of texts, as Spark's inferSchema finds it.

    Args:
        rows: what follows FROM: DuckDB's reader, all columns texts.
    """
    if not names:
        return {}
    asked = ", ".join(f"bit_or({kind_of(quoted(name))}), max(length(ltrim({quoted(name)}, '+-0')))" for name in names)
    answers = awaited(connection, lambda: connection.execute(f"SELECT {asked} FROM {rows}").fetchone())
    assert answers is not None  # an aggregate has one row
    return {name: type_of(answers[2 * i] or 0, answers[2 * i + 1] or 1) for i, name in enumerate(names)}


def kind_of(value: str) -> str:
    """Return the expression of the kind of a value: one of the bits above, NULL for NULL."""
    return (
        f"CASE WHEN {value} IS NULL THEN NULL "
        f"WHEN regexp_full_match({value}, '{INTEGER}') THEN CASE WHEN TRY_CAST({value} AS INTEGER) IS NOT NULL THEN {INT} "
        f"WHEN TRY_CAST({value} AS BIGINT) IS NOT NULL THEN {LONG} ELSE {BIG} END "
        f"WHEN regexp_full_match({value}, '{REAL}') THEN {DOUBLE} "
        f"WHEN regexp_full_match({value}, '{DATE}') AND TRY_CAST({value} AS DATE) IS NOT NULL THEN {DAY} "
        f"WHEN regexp_full_match({value}, '{TIME}') AND TRY_CAST({value} AS TIMESTAMPTZ) IS NOT NULL THEN {MOMENT} "
        f"WHEN lower({value}) IN ('true', 'false') THEN {TRUTH} ELSE {TEXT} END"
    )


def type_of(kinds: int, digits: int) -> str:
    """Return the type of a column with these kinds of values and at most so many digits."""
    fitting = (name for name, taken in TYPES if kinds and not kinds & ~taken)
    found = next(fitting, "VARCHAR")
    if found == "DECIMAL":
        return f"DECIMAL({digits},0)" if digits <= LONGEST_DECIMAL else "DOUBLE"
    return found
