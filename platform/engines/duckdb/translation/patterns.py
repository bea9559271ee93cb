"""Spark's patterns of dates and times on DuckDB: by which times are written, and by which texts are read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from ....errors import StatementError
from ....udf.time_patterns import PIECES, reading_of
from .calls import call, filled, string
from .casts import concatenated

WRITTEN = {
    "yy": "%y",
    "yyyy": "%Y",
    **dict.fromkeys("ML", "%-m"),
    **{2 * letter: "%m" for letter in "ML"},
    **{3 * letter: "%b" for letter in "ML"},
    **{4 * letter: "%B" for letter in "ML"},
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
    **dict.fromkeys(("G", "GG", "GGG"), "AD"),
    "GGGG": "Anno Domini",
    # The zone of a session is UTC.
    **{"X" * count: "Z" for count in range(1, 6)},
    "x": "+00",
    **dict.fromkeys(("xx", "xxxx"), "+0000"),
    **dict.fromkeys(("xxx", "xxxxx"), "+00:00"),
    **{"Z" * count: "+0000" for count in range(1, 4)},
    "ZZZZ": "GMT",
    "ZZZZZ": "Z",
    **dict.fromkeys(("VV", "v"), "UTC"),
    **{"z" * count: "UTC" for count in range(1, 4)},
    **dict.fromkeys(("zzzz", "vvvv"), "Coordinated Universal Time"),
    "O": "GMT",
    "OOOO": "GMT",
}
FIXED = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
SHAPES = {"yyyy": "[0-9]{4}", "HH": "([01][0-9]|2[0-3])", "mm": "[0-5][0-9]", "ss": "[0-5][0-9]"}
NUMBERS = {
    "F": "(day(:t) - 1) % 7 + 1",
    "K": "hour(:t) % 12",
    "k": "CASE WHEN hour(:t) = 0 THEN 24 ELSE hour(:t) END",
    "D": "dayofyear(:t)",
    "Q": "quarter(:t)",
    "q": "quarter(:t)",
    "g": "CAST(:t AS DATE) - DATE '1858-11-17'",
    "y": "year(:t)",
}
DIGITS = {"F": (1,), "K": (1, 2), "k": (1, 2), "D": (2,), "Q": (1, 2), "q": (1, 2), "g": range(1, 7), "y": (1, 3, 5, 6)}
COMPUTED = {
    **{letter * n: f"printf('%0{n}d', {NUMBERS[letter]})" for letter, counts in DIGITS.items() for n in counts},
    **dict.fromkeys(("QQQ", "qqq"), "printf('Q%d', quarter(:t))"),
    **dict.fromkeys(("QQQQ", "qqqq"), "['1st', '2nd', '3rd', '4th'][quarter(:t)] || ' quarter'"),
    **{"S" * n: f"left(strftime(CAST(:t AS TIMESTAMP), '%n'), {n})" for n in range(1, 10) if n not in (3, 6)},
}
"""What DuckDB has no code of, as expressions of the moment."""


def formatted(moment: exp.Expr, pattern: str) -> exp.Expr:
    """Return a moment as text by a pattern.

    Raises:
        StatementError: the pattern has a letter, or a number of them, by which nothing is written.
    """
    parts: list[exp.Expr] = []
    codes = ""
    for found in PIECES.finditer(pattern):
        if found[2] is not None and found.group() in COMPUTED:
            value = filled(COMPUTED[found.group()], t=moment)
            parts += [*([call("strftime", moment.copy(), string(codes))] if codes else []), exp.Paren(this=value)]
            codes = ""
        else:
            codes += code_of(found, pattern)
    if codes or not parts:
        parts.append(call("strftime", moment.copy(), string(codes)))
    return concatenated(*parts) if len(parts) > 1 else parts[0]


def code_of(found: re.Match[str], pattern: str) -> str:
    """Return DuckDB's code of one letter run, quoted text or sign of a pattern."""
    text = found.group()
    if found[1] is not None or found[2] is None:
        return "" if text in "[]" else literal_of(found).replace("%", "%%")
    if text not in WRITTEN:
        raise unknown(pattern, text, [*WRITTEN, *COMPUTED])
    return WRITTEN[text]


def literal_of(found: re.Match[str]) -> str:
    """Return the text that a quoted part or a sign of a pattern stands for."""
    text = found.group()
    return text if found[1] is None else "'" if text == "''" else found[1].replace("''", "'")


def unknown(pattern: str, text: str, valid: Sequence[str]) -> StatementError:
    return StatementError(f"The pattern {pattern!r} has {text!r}, which is not available. Valid: {', '.join(valid)}.")


def parsed(text: exp.Expr, pattern: str) -> exp.Expr:
    """Return the moment of a text by a pattern, NULL where it does not match; DuckDB reads texts of usual patterns.

    Raises:
        StatementError: the pattern has a letter, or a number of them, by which nothing is read.
    """
    if reading_of(pattern) is None:
        raise StatementError(
            f"The pattern {pattern!r} has letters by which no text is read. Use y, M, d, D, H, h, k, K, m, s, S, a, X, Z, VV."
        )
    ours = filled("make_timestamptz(xpsql_pattern_micros(:t, :p))", t=text, p=string(pattern))
    pieces = list(PIECES.finditer(pattern))
    letters = [found.group() for found in pieces if found[2] is not None]
    if not {"yyyy", "MM", "dd"} <= set(letters) or not set(letters) <= FIXED.keys() or len(set(letters)) < len(letters):
        return ours
    if any(found.group() in "[]" for found in pieces):
        return ours
    shape = "".join(SHAPES.get(found.group(), "[0-9]{2}") if found[2] else re.escape(literal_of(found)) for found in pieces)
    codes = "".join(FIXED[found.group()] if found[2] else literal_of(found).replace("%", "%%") for found in pieces)
    template = (
        "CASE WHEN regexp_full_match(:t, :shape) THEN CAST(try_strptime(:t, :codes) AS TIMESTAMP WITH TIME ZONE) ELSE :ours END"
    )
    return filled(template, t=text, shape=string(shape), codes=string(codes), ours=ours)
