"""The clauses PUBLISH and RETAIN as data."""

from __future__ import annotations

from typing import NamedTuple

RETAINED = 100
"""How many versions of a resident training stay, by default."""


class Publish(NamedTuple):
    """PUBLISH EVERY n MINUTES | SECONDS | EXAMPLES; one of the two is None."""

    seconds: float | None
    examples: int | None
