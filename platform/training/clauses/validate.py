"""VALIDATE: rows that are held out of learning and scored after each pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...engines.spark_sql.cursor import Cursor
from ...errors import StatementError
from .base import Clause, as_record, of_tables, record_of, same


@dataclass(frozen=True)
class Validate:
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


def read(cursor: Cursor) -> Validate | None:
    cursor.expect("ON")
    if cursor.peek("("):
        return Validate(None, False, cursor.parenthesised().text)
    last, position = cursor.accept("LAST"), cursor.position()
    if cursor.next_kind != "number":
        raise cursor.expected("a share of the rows between 0 and 1, LAST share, or (query)")
    share = float(cursor.number())
    if not 0 < share < 1:
        raise StatementError(f"VALIDATE ON expects a share of the rows between 0 and 1, got {share:g}.", position)
    return Validate(share, last, None)


def shown(validate: Validate | None) -> Iterator[tuple[str, str | None]]:
    yield "validate", None if validate is None else validate.text


VALIDATE: Clause[Validate | None, Validate | None] = Clause(
    "VALIDATE",
    "ON {share | LAST share | (query)}",
    "Hold-out rows, which are scored after each pass, and learned at the end (`WITH held_out`): a share of them, "
    "drawn by a hash of the row's place; `LAST` and a share, the last ones in the order of learning; or a query with "
    "the columns of the training's. "
    "With `patience`, the training stops early when its loss on these rows no longer falls, or its recall rises no more.",
    read,
    None,
    same,
    as_record,
    record_of(Validate),
    of_tables,
    shown,
)
