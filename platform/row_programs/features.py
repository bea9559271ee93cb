"""The functions that features are often made of: bucketize, clip, cross, hash_bucket, ngrams, and arrays of constants."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..ps.hashes import xxhash64
from ..udf.features import MOST_WORDS
from .base import BITS, TEXTS, DoubtError, LacksError, Maker, Typed, literal, made, strict
from .conditions import GREATEST, LEAST, chosen, is_not_null
from .conversions import alike, real, text

ARRAY = "array"


def array(arguments: Sequence[Typed]) -> Typed:
    """Return an array of constants; of texts alone also of others."""
    values = alike(arguments)
    if values and all(value.kind == "varchar" for value in values):
        computes = [value.compute for value in values]
        return made(TEXTS, lambda row: [compute(row) for compute in computes], arguments)
    return literal(ARRAY, [real(value).value for value in values])


def bucketize(arguments: Sequence[Typed]) -> Typed:
    x, bounds = arguments
    found = [bound for bound in bounds.has(ARRAY).value if bound is not None]
    if any(bound != bound for bound in found):
        raise LacksError("bucketize by bounds that are NaN")
    ordered = sorted(found)
    return strict("integer", lambda value: len(ordered) if value != value else bisect_right(ordered, value), real(x))


def clip(arguments: Sequence[Typed]) -> Typed:
    x, low, high = map(real, arguments)
    return chosen([is_not_null([x])], [LEAST([GREATEST([x, low]), high]), literal("null", None)])


def escaped(value: str) -> str:
    """Return a text as cross has it beside others."""
    return value.replace("\\", "\\\\").replace("|", "\\|") if "\\" in value or "|" in value else value


def cross_text(values: Sequence[str | None]) -> str:
    """Return the text of a cross of texts."""
    return "|".join("\\N" if value is None else escaped(value) for value in values)


def cross(arguments: Sequence[Typed]) -> Typed:
    computes = [text(argument).compute for argument in arguments]
    if len(computes) < 2:
        raise LacksError("cross of one value")
    return made("varchar", lambda row: cross_text([compute(row) for compute in computes]), arguments)


def hash_bucket(arguments: Sequence[Typed]) -> Typed:
    value, count = arguments
    if not (size := count.has(*BITS).value):
        raise LacksError("hash_bucket of no buckets")
    if size < 2:
        raise LacksError("hash_bucket of so few buckets")

    def bucket(found: str) -> int:
        return int(int(xxhash64([pa.array([found])]).view("int64")[0]) % size)

    return strict("bigint", bucket, text(value))


def ngrams(arguments: Sequence[Typed]) -> Typed:
    words, least, most = arguments
    lengths = range(least.has("integer").value, most.has("integer").value + 1)
    if not 1 <= lengths.start < lengths.stop <= MOST_WORDS + 1:
        raise LacksError("ngrams of such lengths")

    def runs(found: list[str | None]) -> list[str]:
        known = [word for word in found if word is not None]
        return [" ".join(known[at : at + n]) for n in lengths for at in range(len(known) - n + 1)]

    return strict(TEXTS, runs, words.has(TEXTS))


def size(arguments: Sequence[Typed]) -> Typed:
    (values,) = arguments
    of = values.has(TEXTS).compute

    def count(row: Sequence[Any]) -> int:
        if (found := of(row)) is None:
            raise DoubtError
        return len(found)

    return made("integer", count, arguments)


FUNCTIONS: dict[str, Maker] = {
    "array": array,
    "bucketize": bucketize,
    "clip": clip,
    "cross": cross,
    "hash_bucket": hash_bucket,
    "ngrams": ngrams,
    "size": size,
}
