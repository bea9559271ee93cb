"""PUBLISH and RETAIN: when a resident training makes versions, and how many of them stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...engines.spark_sql.cursor import Cursor
from ...errors import StatementError
from .base import Clause, as_record, of_type, record_of, same

RETAINED = 100
"""How many versions of a resident training stay, by default."""


@dataclass(frozen=True)
class Publish:
    """PUBLISH EVERY n MINUTES | SECONDS | EXAMPLES; one of the two is None."""

    seconds: float | None
    examples: int | None


def read_publish(cursor: Cursor) -> Publish:
    cursor.expect("EVERY")
    number = read_positive(cursor, "PUBLISH EVERY", "a number of minutes, seconds or examples")
    for unit, seconds in (("MINUTE", 60.0), ("SECOND", 1.0)):
        if cursor.accept(f"{unit}S") or (number == 1 and cursor.accept(unit)):
            return Publish(number * seconds, None)
    if cursor.accept("EXAMPLES"):
        return Publish(None, number)
    raise cursor.expected("MINUTES, SECONDS or EXAMPLES")


def read_retain(cursor: Cursor) -> int | None:
    cursor.expect("LAST")
    return read_positive(cursor, "RETAIN LAST", "a number of versions")


def read_positive(cursor: Cursor, clause: str, what: str) -> int:
    position = cursor.position()
    number = cursor.integer(what)
    if not number:
        raise StatementError(f"{clause} expects {what} of at least 1.", position)
    return number


def shown_publish(publish: Publish | None) -> Iterator[tuple[str, str | None]]:
    if publish is not None:
        what = f"{publish.examples} EXAMPLES" if publish.seconds is None else f"{publish.seconds:g} SECONDS"
        yield "publish", f"EVERY {what}"


def shown_retain(retain: int | None) -> Iterator[tuple[str, str | None]]:
    yield "retain", None if retain is None else f"LAST {retain}"


PUBLISH: Clause[Publish, Publish | None] = Clause(
    "PUBLISH",
    "EVERY n {MINUTES | SECONDS | EXAMPLES}",
    "A resident training, of a stream: it learns rows as they arrive, and publishes a version at each interval "
    "if there was anything to learn, until `STOP MODEL`: see [resident.md](resident.md).",
    read_publish,
    None,
    same,
    as_record,
    record_of(Publish),
    shown=shown_publish,
)
RETAIN = Clause(
    "RETAIN",
    "LAST n",
    "How many of the newest versions PUBLISH keeps; 100 by default. The served version, and versions that are being read, "
    "are kept, too.",
    read_retain,
    None,
    same,
    same,
    of_type(int),
    shown=shown_retain,
)
