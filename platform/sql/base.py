"""The contract of statements: parse into a command, run it in a session, return a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from ..session import Session
    from .cursor import Cursor


class Command(Protocol):
    """A parsed statement."""

    def run(self, session: Session) -> pa.Table | None:
        """Run it; rows for statements that answer, None for those that only act.

        Raises:
            XpsqlError: with what was expected, what came and what to do.
        """
        ...


class Statement(NamedTuple):
    """One of our statements, as the tuple STATEMENTS holds them.

    Attributes:
        name: its leading keywords, "SHOW MODELS"; a statement is chosen by the longest match.
        grammar: its form, as docs and DESCRIBE print it.
        help: one line.
        parse: reads the rest after the keywords; leaves the cursor at the end of the statement.
    """

    name: str
    grammar: str
    help: str
    parse: Callable[[Cursor], Command]
