"""bucketize: a number as the bucket it falls in."""

from __future__ import annotations

from collections.abc import Sequence

from .base import Function


def bucket(arguments: Sequence[str]) -> str:
    """Return the count of bounds that are at most x."""
    x, bounds = arguments
    return f"CASE WHEN {x} IS NOT NULL THEN CAST(size(filter({bounds}, bound -> bound <= {x})) AS INT) END"


bucketize = Function(
    name="bucketize",
    signature="(x DOUBLE, bounds ARRAY<DOUBLE>) -> INT",
    help="The number of bounds that are at most x: 0 below all of them. NaN is above all; NULL gives NULL.",
    least=2,
    most=2,
    sql=bucket,
)
