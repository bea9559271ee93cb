"""Text that knows where it was written: positions survive variables, expanded calls and queries cut out of a statement."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from ...errors import Position, StatementError

CALL = re.compile(r"\bxpsql_call_[0-9a-f]{12}\b")  # the view that stands in a text for a call of ML.*; see internal_name
STREAM = re.compile(r"\bxpsql_stream\b")  # the view that stands in a text for a stream; see input.streams.base
HISTORIES = "xpsql_histories"  # the subquery that stands in a text for a SELECT with HISTORY; see sql.histories


def place(text: str, start: int, end: int) -> Position:
    """Return the position of `text[start:end]`."""
    return Passage.of(text).position(start, text[start:end])


class Piece(NamedTuple):
    """A run of characters of a passage: where it starts there, where in the script, and whether it stands there verbatim."""

    start: int
    origin: int
    verbatim: bool


@dataclass(frozen=True)
class Passage:
    """A text made from a script by cutting and replacing.

    Attributes:
        text: what is parsed or run.
        script: what the user wrote.
        pieces: how `text` comes from `script`, in order; the first starts at 0.
    """

    text: str
    script: str
    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, script: str) -> Passage:
        """Return a script as it is."""
        return cls(script, script, (Piece(0, 0, True),))

    def cut(self, start: int, end: int) -> Passage:
        """Return the text from `start` to `end`."""
        if start == 0 and end == len(self.text):
            return self
        first = bisect_right(self.pieces, start, key=lambda piece: piece.start) - 1
        pieces = [
            Piece(max(p.start - start, 0), p.origin + (max(start - p.start, 0) if p.verbatim else 0), p.verbatim)
            for p in self.pieces[first:]
            if p.start < end or p.start <= start
        ]
        return Passage(self.text[start:end], self.script, tuple(pieces))

    def joined(self, *others: Passage) -> Passage:
        """Return this text followed by others of the same script."""
        text, pieces = self.text, list(self.pieces)
        for other in others:
            pieces += [piece._replace(start=piece.start + len(text)) for piece in other.pieces]
            text += other.text
        return Passage(text, self.script, tuple(pieces))

    def inserted(self, text: str, at: int) -> Passage:
        """Return a new text that counts as written where offset `at` of this one was."""
        return Passage(text, self.script, (Piece(0, self.origin(at), False),))

    def replaced(self, edits: Iterable[tuple[int, int, str]]) -> Passage:
        """Return the text with each (start, end, new text) replaced; edits are in order and do not overlap."""
        parts, place = [], 0
        for start, end, text in edits:
            parts += [self.cut(place, start), self.inserted(text, start)]
            place = end
        parts.append(self.cut(place, len(self.text)))
        return parts[0].joined(*parts[1:])

    def origin(self, offset: int) -> int:
        """Return the offset in the script that an offset in the text comes from."""
        piece = self.pieces[bisect_right(self.pieces, offset, key=lambda p: p.start) - 1]
        return piece.origin + (offset - piece.start if piece.verbatim else 0)

    def position(self, offset: int, shown: str) -> Position:
        """Return the line and column of the script for an offset in the text."""
        place = self.origin(offset)
        before = self.script[:place]
        return Position(before.count("\n") + 1, place - before.rfind("\n"), shown)

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Give errors whose position is one in `text` their position in the script."""
        try:
            yield
        except StatementError as error:
            raise error.at(self.restated(error.position)) from error.__cause__

    def restated(self, position: Position | None) -> Position:
        """Return the script's position for one in `text`; its start where there is none."""
        if position is None:
            text = self.script[self.origin(0) :] if HISTORIES in self.text else self.text
            shown = STREAM.sub("STREAM ...", CALL.sub("ML.*(...)", text))
            return self.position(0, shown.partition("\n")[0])
        before = self.text.split("\n")[: position.line - 1]
        offset = sum(len(line) + 1 for line in before) + position.column - 1
        return self.position(min(offset, len(self.text)), position.text)


def blanked(text: str) -> str:
    """Return white space of the same lines and columns as a text."""
    return "".join(c if c == "\n" else " " for c in text)
