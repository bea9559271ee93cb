"""Spark's patterns of dates and times, as DuckDB's strftime and strptime have them."""

from __future__ import annotations

import re

from ....errors import StatementError

PIECES = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
CODES = {
    "y": "%Y",
    "yy": "%y",
    "yyyy": "%Y",
    "M": "%-m",
    "MM": "%m",
    "MMM": "%b",
    "MMMM": "%B",
    "d": "%-d",
    "dd": "%d",
    "D": "%-j",
    "DDD": "%j",
    "E": "%a",
    "EE": "%a",
    "EEE": "%a",
    "EEEE": "%A",
    "H": "%-H",
    "HH": "%H",
    "h": "%-I",
    "hh": "%I",
    "m": "%-M",
    "mm": "%M",
    "s": "%-S",
    "ss": "%S",
    "SSS": "%g",
    "SSSSSS": "%f",
    "a": "%p",
}


def percent_codes(pattern: str) -> str:
    """Return a pattern with percent codes in place of letters.

    Raises:
        StatementError: a letter, or a number of them, that has no code.
    """
    return "".join(piece(found, pattern) for found in PIECES.finditer(pattern))


def piece(found: re.Match[str], pattern: str) -> str:
    """Return one letter run, quoted text or sign of a pattern."""
    text = found.group()
    if found[1] is not None:
        return "'" if text == "''" else found[1].replace("''", "'").replace("%", "%%")
    if found[2] is None:
        return "%%" if text == "%" else text
    if text not in CODES:
        raise StatementError(f"The pattern {pattern!r} has {text!r}, which is not available. Valid: {', '.join(CODES)}.")
    return CODES[text]
