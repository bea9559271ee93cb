"""Functions of texts that DuckDB computes otherwise than Spark: letters outside of ASCII, and numbers in other bases."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa

from .base import Computed

LARGEST = (1 << 64) - 1


def of_text(function: Callable[[str], str]) -> Callable[[Sequence[pa.Array]], pa.Array]:
    """Return a function of one text as one of a column."""

    def compute(columns: Sequence[pa.Array]) -> pa.Array:
        return pa.array([None if text is None else function(text) for text in columns[0].to_pylist()], pa.string())

    return compute


def in_base(text: str, source: int, target: int) -> str | None:
    """Return a number of one base in another, as Spark's conv: digits up to the first that is none, 64 bits without a sign.

    Raises:
        ValueError: it has more than 64 bits.

    Source: Spark's org.apache.spark.sql.catalyst.util.NumberConverter.
    """
    text = text.strip(" ")
    if not text or not 2 <= source <= 36 or not 2 <= abs(target) <= 36:
        return None
    negative, value = text.startswith("-"), 0
    for digit in text.removeprefix("-"):
        worth = int(digit, 36) if re.fullmatch("[0-9a-zA-Z]", digit) else 36
        if worth >= source:
            break
        value = value * source + worth
    if value > LARGEST:
        raise ValueError(f"conv takes numbers of 64 bits, got {text!r}.")
    if negative and target > 0:
        value = -value & LARGEST
    if target < 0 and not negative and value > LARGEST >> 1:
        negative, value = True, -value & LARGEST
    digits = ""
    while value:
        value, worth = divmod(value, abs(target))
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[worth] + digits
    return ("-" if negative and target < 0 else "") + (digits or "0")


def bases(columns: Sequence[pa.Array]) -> pa.Array:
    """Return numbers in other bases: (text, from, to), string[n]."""
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return pa.array([None if None in row else in_base(*row) for row in rows], pa.string())


def latin(columns: Sequence[pa.Array]) -> pa.Array:
    """Return bytes of ISO-8859-1 as texts."""
    return pa.array([None if value is None else value.decode("latin-1") for value in columns[0].to_pylist()], pa.string())


latin_text = Computed("xpsql_latin_text", latin, pa.string())
lowered = Computed("xpsql_lower", of_text(str.lower), pa.string())
raised = Computed("xpsql_upper", of_text(str.upper), pa.string())
reversed_text = Computed("xpsql_reverse", of_text(lambda text: text[::-1]), pa.string())
base_text = Computed("xpsql_conv", bases, pa.string())
