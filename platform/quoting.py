"""Names and texts as Spark SQL writes them, and statements without their secrets."""

from __future__ import annotations

import re

SECRETS = re.compile(
    r"""(?P<name>(?:password|passwd|secret|jaas|token|\.pem\b|oauthbearer\.config|credential)[\w.]*[`'"]?(?:\s*(?:=>|=|,|:)\s*|\s+))"""
    r"""(?!['"]env:)(?:'(?:[^'\\]|\\.|'')*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z))""",
    re.IGNORECASE | re.DOTALL,
)
"""Options by which streams, files and catalogs are told secrets, and their values, also of a text that ends within one."""
MASK = "'***'"


def quoted(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a text as a literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def masked(text: str) -> str:
    """Return a statement without the values of options that are secrets, but for the names of environment variables."""
    return masked_at(text, 0)[0]


def masked_at(text: str, place: int) -> tuple[str, int]:
    """Return what `masked` does, and where in it a place of the text is."""
    for found in reversed(list(SECRETS.finditer(text))):
        start, end = found.end("name"), found.end()
        text = text[:start] + MASK + text[end:]
        place = place if place <= start else max(start, place + len(MASK) - (end - start)) if place >= end else start
    return text, place
