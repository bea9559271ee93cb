"""bucketize: a number as the bucket it falls in."""

from __future__ import annotations

from collections.abc import Sequence

from .base import Function


def bucket(arguments: Sequence[str]) -> str:
    """Return the count of bounds that are at most x."""
    x, bounds = arguments
    number = f"CAST({x} AS DOUBLE)"
    return f"CASE WHEN {number} IS NOT NULL THEN size(filter({bounds}, xpsql_bound -> xpsql_bound <= {number})) END"


bucketize = Function(
    name="bucketize",
    signature="(x DOUBLE, bounds ARRAY<DOUBLE>) -> INT",
    help="The number of bounds that are at most x: 0 below all of them. NaN is above all; NULL gives NULL.",
    least=2,
    most=2,
    expand=bucket,
)
