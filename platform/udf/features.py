"""clip and hash_bucket: expressions that features are often made of."""

from __future__ import annotations

from collections.abc import Sequence

from .base import Function


def clipped(arguments: Sequence[str]) -> str:
    """Return x, or the bound that it is beyond; greatest and least alone would pass NULL over."""
    x, low, high = (f"CAST({argument} AS DOUBLE)" for argument in arguments)
    return f"CASE WHEN {x} IS NOT NULL THEN least(greatest({x}, {low}), {high}) END"


def hashed(arguments: Sequence[str]) -> str:
    """Return the bucket of a value's text."""
    x, n = arguments
    return f"CASE WHEN {x} IS NOT NULL THEN pmod(xxhash64(CAST({x} AS STRING)), CAST({n} AS BIGINT)) END"


clip = Function(
    name="clip",
    signature="(x DOUBLE, low DOUBLE, high DOUBLE) -> DOUBLE",
    help="x, or the bound that it is beyond. NaN is above all; NULL gives NULL.",
    least=3,
    most=3,
    expand=clipped,
)

hash_bucket = Function(
    name="hash_bucket",
    signature="(value, n BIGINT) -> BIGINT",
    help="A number from 0 to n - 1 by hash of the value's text, which other values have too: the keys of features collide "
    "less. NULL gives NULL.",
    least=2,
    most=2,
    expand=hashed,
)
