"""clip, hash_bucket, ngrams and quantile_bounds: expressions that features are often made of."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import StatementError
from .base import Function

MOST_QUANTILES = 1000
MOST_WORDS = 10


def clipped(arguments: Sequence[str]) -> str:
    """Return x, or the bound that it is beyond; greatest and least alone would pass NULL over."""
    x, low, high = (f"CAST({argument} AS DOUBLE)" for argument in arguments)
    return f"CASE WHEN {x} IS NOT NULL THEN least(greatest({x}, {low}), {high}) END"


def hashed(arguments: Sequence[str]) -> str:
    """Return the bucket of a value's text.

    Raises:
        StatementError: there is no bucket.
    """
    x, n = arguments
    number, known = f"CAST({n} AS BIGINT)", f"{x} IS NOT NULL"
    if not n.lstrip("-").isdigit():
        known += f" AND {number} > 0"
    elif int(n) < 1:
        raise StatementError(f"hash_bucket takes (value, n), where n is a number of buckets of at least 1, got {n}.")
    return f"CASE WHEN {known} THEN pmod(xxhash64(CAST({x} AS STRING)), {number}) END"


def grams(arguments: Sequence[str]) -> str:
    """Return the runs of an array's elements, which is the argument of a lambda, so that it is computed once.

    Raises:
        StatementError: a length is not written as a number, or out of range.
    """
    words, least, most = arguments
    if not (least.isdigit() and most.isdigit() and 1 <= int(least) <= int(most) <= MOST_WORDS):
        raise StatementError(f"ngrams takes (words, least, most), numbers from 1 to {MOST_WORDS} that are written as such.")
    runs = ", ".join(map(runs_of, range(int(least), int(most) + 1)))
    known = f"filter(CAST({words} AS ARRAY<STRING>), xpsql_word -> xpsql_word IS NOT NULL)"
    return f"get(transform(array({known}), xpsql_words -> concat({runs})), 0)"


def runs_of(n: int) -> str:
    """Return the runs of n elements of xpsql_words."""
    if n == 1:
        return "xpsql_words"
    others = "".join(f" || ' ' || get(xpsql_words, xpsql_at + {k})" for k in range(1, n))  # NULL beyond the end
    made = f"transform(xpsql_words, (xpsql_word, xpsql_at) -> xpsql_word{others})"
    return f"filter({made}, xpsql_run -> xpsql_run IS NOT NULL)"


def bounds(arguments: Sequence[str]) -> str:
    """Return the aggregate of a column's quantiles.

    Raises:
        StatementError: the number of parts is not written as one, or out of range.
    """
    x, n = arguments
    if not n.isdigit() or not 2 <= int(n) <= MOST_QUANTILES:
        message = f"quantile_bounds takes (x, n), where n is a number from 2 to {MOST_QUANTILES} that is written as one."
        raise StatementError(message)
    shares = ", ".join(f"{i / int(n)!r}D" for i in range(1, int(n)))
    return f"percentile(CAST({x} AS DOUBLE), array({shares}))"


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
    help="A number from 0 to n - 1, by a hash of the value's text. Different values can get the same number; keys of features "
    "collide far less. NULL gives NULL, and so does a computed n below 1.",
    least=2,
    most=2,
    expand=hashed,
)

ngrams = Function(
    name="ngrams",
    signature="(words ARRAY<STRING>, least, most) -> ARRAY<STRING>",
    help="Runs of least to most neighbouring elements, each joined by a space, the shorter ones first. NULL elements are left "
    "out; NULL gives NULL.",
    least=3,
    most=3,
    expand=grams,
)

quantile_bounds = Function(
    name="quantile_bounds",
    signature="(x DOUBLE, n) -> ARRAY<DOUBLE>",
    help="An aggregate: the n - 1 bounds that cut the values into n parts of equal size, for bucketize; exact. NULL values "
    "are skipped.",
    least=2,
    most=2,
    expand=bounds,
)
