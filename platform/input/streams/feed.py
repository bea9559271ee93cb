"""Polling a stream: what arrives, in order of learning and in pieces of the requested size."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

from ....warehouse.entries import RowGroup, Split
from ...errors import DataError
from .base import AwayError, InputStream, Position

LOOK_SECONDS = 0.5
"""The polling interval while everything is taken."""
BEHIND_SECONDS = 10.0
"""The polling interval while something is left, to know how much has arrived."""
AWAY_SECONDS = 600.0
"""How long a stream may be unavailable."""


class Feed:
    """Polls a stream as it grows.

    Args:
        position: where it begins.
        note: called once when the stream does not answer, when it does again, and with what it has noticed.

    Attributes:
        position: after what was taken.
    """

    def __init__(self, stream: InputStream, position: Position, note: Callable[[str], None]) -> None:
        self.stream = stream
        self.position = position
        self._seen = position  # after what is known to have arrived
        self._waiting: deque[Split] = deque()
        self._since: deque[float] = deque()
        self._looked = self._answered = -math.inf
        self._away = False
        self._note = note

    @property
    def waiting_rows(self) -> int:
        """The most rows that have arrived and are not taken."""
        return sum(split.rows for split in self._waiting)

    @property
    def waiting_since(self) -> float | None:
        """When the first waiting row was seen, on the monotonic clock."""
        return self._since[0] if self._since else None

    def take(self, num_splits: int, rows: float = 0) -> list[Split]:
        """Return the next splits, so many, more where they have fewer rows than `rows`, and the rest of the last one's file:
        positions know only whole files.

        Raises:
            DataError: what arrived has changed, or the stream does not answer at the first poll, or for ten minutes.
        """
        self.look()
        taken: list[Split] = []
        while self._waiting and (len(taken) < num_splits or rows > 0 or of_one_file(taken[-1], self._waiting[0])):
            taken.append(self._waiting.popleft())
            self._since.popleft()
            rows -= taken[-1].rows
        if taken:
            self.position = self.stream.after(self.position, taken)
        return taken

    def look(self, now: bool = False) -> None:
        """Poll the stream, if that is due; or now.

        Raises:
            DataError: as of take.
        """
        if now or time.monotonic() - self._looked >= (BEHIND_SECONDS if self._waiting else LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        try:
            came = self.stream.news(self._seen)
        except AwayError as error:
            if self._answered < 0:
                raise
            if not self._away:
                self._note(f"{str(error).rstrip('.')}. Trying again for ten minutes.")
            self._away = True
            if time.monotonic() - self._answered > AWAY_SECONDS:
                raise DataError(f"{error} It has not answered for {AWAY_SECONDS:.0f} s.") from error
            return
        finally:
            self._looked = time.monotonic()
        if self._away:
            self._note(f"The {self.stream.name} answers again.")
        self._away, self._answered = False, self._looked
        if came:
            if (said := self.stream.noticed(self._seen)) is not None:
                self._note(said)
            self._waiting.extend(came)
            self._since.extend([self._looked] * len(came))
            self._seen = self.stream.after(self._seen, came)


def of_one_file(one: Split, other: Split) -> bool:
    """Return whether two splits are row groups of the same file."""
    return isinstance(one, RowGroup) and isinstance(other, RowGroup) and one.path == other.path
