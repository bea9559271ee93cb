"""VERSION AS OF and TIMESTAMP AS OF of a relation."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from ..errors import Position, StatementError


class AsOf(NamedTuple):
    """VERSION AS OF or TIMESTAMP AS OF, with the text of its literal."""

    kind: str
    value: str


def moment_of(text: str, position: Position | None) -> datetime:
    """Return the time of TIMESTAMP AS OF, in UTC where it names no zone.

    Raises:
        StatementError: it is none.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise StatementError(f"TIMESTAMP AS OF takes a time such as '2026-11-01 12:00:00', got {text!r}.", position) from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
