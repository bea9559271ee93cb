"""Functions of texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from .base import BITS, TEXTS, DoubtError, LacksError, Maker, Typed, made, strict
from .conversions import text

PLAIN = re.compile(r"[A-Za-z0-9 ,;:_=/&%#@!~<>'\"-]+|\[[^\\^\[\]]\]")
"""Patterns of split that stand for themselves, or are one character in brackets."""
SETTLED = re.compile(r"[\0-\u1bff\u2000-\u206f\u20a0-\u20cf\u3000-\u9fff\uac00-\ud7a3\U0001f300-\U0001faff]*")
"""Texts whose letters have the same other case in all versions of Unicode."""


def plain_case(change: Callable[[str], str]) -> Callable[[str], str]:
    """Return lower or upper, which doubts letters on which versions of Unicode may differ."""

    def changed(value: str) -> str:
        if value.isascii():
            return change(value)
        if SETTLED.fullmatch(value) is None:
            raise DoubtError
        return change(value)

    return changed


def of_text(function: Callable[[str], Any], kind: str = "varchar") -> Maker:
    """Return the maker of a function of the text of a value."""

    def make(arguments: Sequence[Typed]) -> Typed:
        (value,) = arguments
        return strict(kind, function, text(value))

    return make


def of_texts(function: Callable[[str, str], Any], kind: str) -> Maker:
    """Return the maker of a function of two texts."""

    def make(arguments: Sequence[Typed]) -> Typed:
        value, other = (argument.has("varchar") for argument in arguments)
        return strict(kind, function, value, other)

    return make


def concat(arguments: Sequence[Typed]) -> Typed:
    return strict("varchar", lambda *texts: "".join(texts), *map(text, arguments))


def concat_ws(arguments: Sequence[Typed]) -> Typed:
    separator, *values = arguments
    sep, computes = separator.has("varchar").compute, [text(value).compute for value in values]
    if not values:
        raise LacksError("concat_ws without values")

    def compute(row: Sequence[Any]) -> str | None:
        between = sep(row)
        if between is None:
            return None
        return str(between).join(found for one in computes if (found := one(row)) is not None)

    return made("varchar", compute, arguments)


def substring(arguments: Sequence[Typed]) -> Typed:
    value, start, *length = arguments
    if (first := start.has("integer").value) is None or first < 0:
        raise LacksError("substring from the end")
    begin = max(first, 1) - 1
    if not length:
        return strict("varchar", lambda found: found[begin:], text(value))
    if (count := length[0].has("integer").value) is None:
        raise LacksError("substring of NULL letters")
    return strict("varchar", lambda found: found[begin : begin + max(count, 0)], text(value))


def letters(cut: Callable[[str, int], str]) -> Maker:
    """Return the maker of left or right, of a number of letters that is written as such."""

    def make(arguments: Sequence[Typed]) -> Typed:
        value, count = arguments
        number = count.has(*BITS).value
        if number is None or number < 1:
            raise LacksError("no letters")
        return strict("varchar", lambda found: cut(found, number), value.has("varchar"))

    return make


def replace(arguments: Sequence[Typed]) -> Typed:
    value, search, by = (argument.has("varchar") for argument in arguments)
    return strict("varchar", lambda found, a, b: found.replace(a, b) if a else found, value, search, by)


def split(arguments: Sequence[Typed]) -> Typed:
    value, pattern = arguments
    if not PLAIN.fullmatch(written := str(pattern.has("varchar").value)):
        raise LacksError("split by a pattern")
    separator = written[1] if written.startswith("[") else written
    return strict(TEXTS, lambda found: found.split(separator), value.has("varchar"))


def trimmed(change: Callable[[str, str], str]) -> Maker:
    """Return the maker of trim, ltrim or rtrim, of spaces."""
    return of_text(lambda found: change(found, " "))


FUNCTIONS: dict[str, Maker] = {
    "lower": of_text(plain_case(str.lower)),
    "upper": of_text(plain_case(str.upper)),
    "trim": trimmed(str.strip),
    "ltrim": trimmed(str.lstrip),
    "rtrim": trimmed(str.rstrip),
    "length": of_text(len, "integer"),
    "concat": concat,
    "concat_ws": concat_ws,
    "substring": substring,
    "left": letters(lambda value, n: value[:n]),
    "right": letters(lambda value, n: value[-n:]),
    "replace": replace,
    "split": split,
    "startswith": of_texts(str.startswith, "boolean"),
    "endswith": of_texts(str.endswith, "boolean"),
    "contains": of_texts(lambda value, part: part in value, "boolean"),
}
