"""The terms of CROSS, as a statement says them."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import Subject

MOST_MEMBERS = 4


class Term(NamedTuple):
    """A term of CROSS.

    Attributes:
        text: as written.
        names: the slots that it names; none for *, which stands for all slots that can be crossed.
        order: how many of them each of its crosses combines.
    """

    text: str
    names: tuple[str, ...]
    order: int

    @property
    def subject(self) -> Subject:
        """The term, for errors."""
        return Subject("CROSS", option=self.text)

    @property
    def meaning(self) -> tuple[tuple[str, ...], int]:
        """What is the same for terms that make the same crosses; names are compared without case."""
        return tuple(name.lower() for name in self.names), self.order
