"""Past events: their codes of some slots, beside users and times, so that a window may reach back beyond a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..augment import Augment, Draw, Prepare
from ..blocks.events import EVENTS
from ..chunk import Chunk
from ..inputs import Layout


@dataclass(frozen=True)
class PastFields(Augment):
    """The slots that are seen of past events, by their places among categorical ones."""

    lines: Sequence[int]

    @property
    def scores(self) -> bool:
        """See Augment."""
        return True

    def prepare(self, chunk: Chunk, layout: Layout, draw: Draw) -> Prepare:
        """See Augment."""
        (events,) = chunk.block(EVENTS)
        seen = events.with_fields(chunk.scalar[list(self.lines)])
        return lambda piece, start, stop: piece.having(EVENTS, [seen])


@dataclass(frozen=True)
class LearnedContext(Augment):
    """The last events of a stored history that are seen before what is learned of a user, at most so many; predictions see as
    many as a window has room for."""

    most: int

    def prepare(self, chunk: Chunk, layout: Layout, draw: Draw) -> Prepare:
        """See Augment."""
        return lambda piece, start, stop: piece.having(EVENTS, [one.with_context(self.most) for one in piece.block(EVENTS)])
