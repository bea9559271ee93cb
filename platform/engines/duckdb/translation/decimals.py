"""The precision and scale of decimal arithmetic.

Source: Spark's org.apache.spark.sql.catalyst.expressions.DecimalPrecision and types.DecimalType.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType

LARGEST = 38
LEAST_SCALE = 6
OF_INTEGERS = {"tinyint": 3, "smallint": 5, "integer": 10, "bigint": 20}


class Decimal(NamedTuple):
    """DECIMAL(precision, scale)."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


def decimal_of(kind: DuckDBPyType) -> Decimal:
    """Return the precision and scale of DuckDB's decimal."""
    return Decimal(*(int(str(size)) for _, size in kind.children))


def literal_digits(node: exp.Expr) -> int:
    """Return the digits of an integer literal: 7, -7, 7L; 0 for what is none."""
    node = node.unnest()
    node = node.this.unnest() if isinstance(node, exp.Neg) else node
    node = node.this if isinstance(node, exp.Cast) and node.to.is_type(*exp.DataType.INTEGER_TYPES) else node
    return len(node.name.lstrip("0")) or 1 if isinstance(node, exp.Literal) and node.name.isdigit() else 0


def added(a: Decimal, b: Decimal) -> Decimal:
    scale = max(a.scale, b.scale)
    return adjusted(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def multiplied(a: Decimal, b: Decimal) -> Decimal:
    return adjusted(a.precision + b.precision + 1, a.scale + b.scale)


def divided(a: Decimal, b: Decimal) -> Decimal:
    scale = max(LEAST_SCALE, a.scale + b.precision + 1)
    return adjusted(a.precision - a.scale + b.scale + scale, scale)


def remaining(a: Decimal, b: Decimal) -> Decimal:
    scale = max(a.scale, b.scale)
    return adjusted(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def adjusted(precision: int, scale: int) -> Decimal:
    """Return the decimal cut to 38 digits, fractions first but not below 6 of them."""
    if precision <= LARGEST:
        return Decimal(precision, scale)
    whole = precision - scale
    return Decimal(LARGEST, max(LARGEST - whole, min(scale, LEAST_SCALE)))
