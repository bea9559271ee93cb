"""The clause VALIDATE as data."""

from __future__ import annotations

from typing import NamedTuple


class Validate(NamedTuple):
    """VALIDATE ON `share`, VALIDATE ON LAST `share`, or VALIDATE ON (`query`); the share is in (0, 1)."""

    share: float | None
    last: bool
    query: str | None

    @property
    def text(self) -> str:
        """The clause without its first word."""
        if self.query is not None:
            return f"ON ({self.query})"
        return f"ON {'LAST ' if self.last else ''}{self.share:g}"
