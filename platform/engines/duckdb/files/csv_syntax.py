"""How the text of CSV files uses quotes, escapes, comments and lines: whether DuckDB's reader makes Spark's values of it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ....errors import StatementError
from .paths import FAILURES, opener

CHUNK = 1 << 20
LINE_END, SPACE = ord("\n"), ord(" ")
BLANK = re.compile(rb"(?m)^[\x00-\x09\x0b-\x20]+$")
EMPTY = re.compile(rb"(?m)^\r?\n")
STAND_IN = b"\x01"  # stands for a separator of several bytes, and for escapes with what they escape


@dataclass
class Syntax:
    """What the files have.

    Attributes:
        quotes: quotes.
        misplaced: quotes other than at the edges of values.
        escapes: escapes before quotes or escapes, in quoted values.
        others: escapes elsewhere.
        breaks: line breaks in quoted values.
        comments: the character that begins comments.
        blank: lines of white space.
        empty: lines without any character.
        endings: lines that end with a carriage return, and lines that do not.
        longest: the bytes of the longest line where that is long, else 0.
        doubled: the file and line of the first quotes that are doubled inside a quoted value; None where there are none.
    """

    quotes: bool = False
    misplaced: bool = False
    escapes: bool = False
    others: bool = False
    breaks: bool = False
    comments: bool = False
    blank: bool = False
    empty: bool = False
    endings: bool = False
    longest: int = 0
    doubled: tuple[str, int] | None = None

    @property
    def loses(self) -> bool:
        """Whether DuckDB's reader would lose characters: misplaced quotes are not its own, and it drops all escapes or none."""
        return self.misplaced or (self.escapes and self.others)


class SyntaxScan:
    """Finds the syntax of files, of all their bytes: what is rare decides how all are read.

    Args:
        separator: of cells.
        quote, escape, comment: one character or none.
        encoding: Python's name of it.
    """

    def __init__(self, separator: str, quote: str, escape: str, comment: str, encoding: str) -> None:
        self.found = Syntax()
        self._separator, self._quote = separator.encode(encoding), quote.encode(encoding)
        self._escape = b"" if quote == escape else escape.encode(encoding)
        self._comment = comment.encode(encoding)
        self._doubles = quote != escape
        self._ends = 0
        edges = (self._separator if len(self._separator) == 1 else STAND_IN) + b"\r\n" + (b"" if self._doubles else self._quote)
        self._edge = np.zeros(256, np.bool_)
        self._edge[list(edges)] = True

    def read(self, file: str) -> None:
        """Add what a file has.

        Raises:
            StatementError: the file cannot be read.
        """
        inside, lines, found = False, 0, self.found
        for text in whole_lines(file, "CSV"):
            self._lines(text, file)
            if len(text) > 2 * CHUNK:
                found.longest = max(found.longest, *map(len, text.split(b"\n")))
            found.comments |= bool(self._comment) and self._comment in text
            if self._quote and self._quote in text:
                found.quotes = True
                inside = self._quotes(text, inside, file, lines)
            elif self._escape and self._escape in text:
                found.others = True
            if self._quote and self._doubles and found.doubled is None:
                lines += text.count(b"\n")
        found.misplaced |= inside

    def _lines(self, text: bytes, file: str) -> None:
        """Look for lines without anything but white space, and at the ends of lines."""
        codes = np.frombuffer(text, np.uint8)
        starts = codes[:-1] == LINE_END
        starts &= codes[1:] <= SPACE
        if codes[0] <= SPACE or starts.any():
            self.found.blank |= BLANK.search(text) is not None
            self.found.empty |= EMPTY.search(text) is not None
        if b"\r" in text:
            both, returns = text.count(b"\r\n"), text.count(b"\r")
            self.found.endings |= returns != both or text.count(b"\n") != both
            if both and returns != both:
                message = f"{file} has lines that end with a carriage return, and lines that end with a line feed."
                raise StatementError(f"{message} Write it with one kind of end: tr -s '\\r' '\\n' < old.csv > new.csv.")

    def _quotes(self, text: bytes, inside: bool, file: str, lines: int) -> bool:
        """Look at the quotes of some lines, which begin inside of a value or not; return whether they end so."""
        plain = text
        if self._escape and self._escape in text:
            plain = plain.replace(2 * self._escape, 2 * STAND_IN).replace(self._escape + self._quote, 2 * STAND_IN)
            self.found.escapes |= plain != text
            self.found.others |= self._escape in plain
        if len(self._separator) > 1:
            plain = plain.replace(self._separator, STAND_IN)
        codes = np.frombuffer(plain, np.uint8)
        places = np.flatnonzero((codes == self._quote[0]) | (codes == LINE_END))
        is_quote = codes[places] == self._quote[0]
        within = ((np.cumsum(is_quote) - is_quote + inside) & 1).astype(np.bool_)
        self.found.breaks |= bool((within & ~is_quote).any())
        quotes, closing = places[is_quote], within[is_quote]
        opened, closed = quotes[~closing], quotes[closing]
        begins = self._edge[codes[np.maximum(opened - 1, 0)]] | (opened == 0)
        ends = self._edge[codes[np.minimum(closed + 1, len(codes) - 1)]] | (closed == len(codes) - 1)
        if not (begins.all() and ends.all()):
            self.found.misplaced = True
            if self._doubles and self.found.doubled is None:
                self._find_doubled(text, file, lines)
        if plain is not text and len(self._separator) == 1:
            escapes = np.flatnonzero(codes == STAND_IN[0])
            self.found.others |= bool(((np.searchsorted(quotes, escapes) + inside) & 1 == 0).any())
        return bool((len(quotes) + inside) & 1)

    def _find_doubled(self, text: bytes, file: str, lines: int) -> None:
        """Look for quotes that are doubled inside a quoted value."""
        sep, quote, escape = (re.escape(part) for part in (self._separator, self._quote, self._escape))
        inside = rb"[^" + quote + escape + rb"]" + (rb"|" + escape + rb"." if escape else b"")
        value = rb"(?:^|" + sep + rb")" + quote + rb"(?:" + inside + rb")*+" + quote + rb"(" + quote + rb")?"
        values = re.finditer(value, text, re.MULTILINE | re.DOTALL)
        if (doubled := next((value for value in values if value[1]), None)) is not None:
            self.found.doubled = (file, lines + text.count(b"\n", 0, doubled.end()) + 1)


def whole_lines(file: str, format: str) -> Iterator[bytes]:
    """Yield the bytes of a file in parts that end with a line.

    Raises:
        StatementError: the file cannot be read.
    """
    try:
        with opener(file)(file, "rb") as stream:
            rest = stream.read(CHUNK).removeprefix(codecs.BOM_UTF8)
            while chunk := stream.read(CHUNK):
                end = chunk.rfind(b"\n") + 1
                if end:
                    yield rest + chunk[:end]
                    rest = chunk[end:]
                else:
                    rest += chunk
            if rest:
                yield rest
    except FAILURES as error:
        raise StatementError(f"{file} cannot be read as {format}: {error}.") from error
