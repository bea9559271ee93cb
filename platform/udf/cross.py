"""cross: several columns as one categorical slot."""

from __future__ import annotations

from collections.abc import Sequence

from .base import Function


def part(value: str) -> str:
    r"""Return one value's text without a bare separator: `\` and `|` are escaped, NULL is `\N`."""
    escaped = rf"replace(replace(CAST({value} AS STRING), '\\', '\\\\'), '|', '\\|')"
    return rf"coalesce({escaped}, '\\N')"


def joined(arguments: Sequence[str]) -> str:
    """Return the text of all parts; different values give different texts."""
    return f"concat_ws('|', {', '.join(part(argument) for argument in arguments)})"


cross = Function(
    name="cross",
    signature="(value, value, ...) -> STRING",
    help=r"The values as one text, joined by |, that no other values give; \ and | are escaped by \, and NULL is \N.",
    least=2,
    most=None,
    expand=joined,
)
