"""xpsql_csv_cells and xpsql_csv_rows: the cells of CSV texts whose quotes are not all at the edges of values.

Source: the states of univocity-parsers 2.9.1's CsvParser with STOP_AT_DELIMITER, which Spark reads CSV by.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import pyarrow as pa

from .base import Computed

Cells = list[str | None]
PRIVATE = "\ue000"  # stands for a separator of several characters while a text is read


class EndError(Exception):
    """The text has no more characters."""


class CellReader:
    """Reads the cells of one text; a cell without quotes and characters is None.

    Args:
        separator: one character.
        quote: one character.
        escape: one character or none, before a quote that is part of its value.
        leading, trailing: whether white space is taken away from both sides of values without quotes.
        comment: one character or none, which begins lines that are no rows.
    """

    def __init__(self, separator: str, quote: str, escape: str, leading: bool, trailing: bool, comment: str) -> None:
        self.ends = (separator, "\n")
        self.quote, self.escape = quote, escape
        self.escaped_escape = "" if quote == escape else escape
        self.leading, self.trailing, self.comment = leading, trailing, comment

    def rows(self, text: str) -> list[Cells]:
        """Return the cells of each row of a text."""
        self._text, self._at = text, 0
        self._rows: list[Cells] = []
        self._row: Cells = []
        self._out: list[str] = []
        self._trims = False
        self._char = self._previous = ""
        self._unescaped = False
        try:
            while True:
                self._record()
        except EndError:
            self._end()
        return self._rows

    def _next(self) -> None:
        if self._at >= len(self._text):
            raise EndError
        self._char = self._text[self._at]
        self._at += 1

    def _until(self, *stops: str) -> None:
        """Take characters up to one of the stops; where the text ends before, the character stays that of the beginning."""
        char = self._char
        while char not in stops:
            self._out.append(char)
            if self._at >= len(self._text):
                raise EndError
            char = self._text[self._at]
            self._at += 1
        self._char = char

    def _value(self) -> None:
        text = "".join(self._out)
        self._row.append(text.rstrip() if self._trims else text)
        self._out = []

    def _end_row(self) -> None:
        self._rows.append(self._row)
        self._row = []

    def _end(self) -> None:
        """Take what the text ends with."""
        char, previous = self._char, self._previous
        whole = char == self.quote and previous == self.quote
        if char == self.quote and not whole and not self._unescaped:
            self._out.append(self.quote)
        if self._out or whole or (previous != "" and char not in self.ends):
            self._value()
        elif self._row or (char and char != "\n"):
            self._row.append(None)
        if self._row:
            self._end_row()

    def _record(self) -> None:
        self._previous = self._char = ""
        self._next()
        while self._char in ("\n", self.comment):
            if self._char == self.comment:
                while self._char != "\n":
                    self._char = ""
                    self._next()
            self._char = ""
            self._next()
        while True:
            if self.leading:
                while self._char <= " " and self._char not in self.ends:
                    self._next()
            self._cell()
            if self._char == "\n":
                self._end_row()
                return
            self._next()
            if self._char == "\n":
                self._row.append(None)
                self._end_row()
                return

    def _cell(self) -> None:
        self._unescaped, self._previous = False, ""
        if self._char in self.ends:
            self._row.append(None)
        elif self._char == self.quote:
            self._trims = False
            self._quoted()
            self._value()
        else:
            self._trims = self.trailing
            self._until(*self.ends)
            self._value()

    def _stop_at_end(self) -> None:
        """Take a value whose quote did not end it as it is written."""
        self._out.insert(0, self.quote)
        self._trims = self.trailing
        self._next()
        self._until(*self.ends)

    def _quoted(self) -> None:
        self._next()
        while not (self._previous == self.quote and (self._char <= " " or self._char in self.ends)):
            if self._char in (self.quote, self.escape):
                self._special()
                self._previous = self._char
                self._next()
                if self._unescaped and self._char in self.ends:
                    return
                continue
            if self._previous == self.quote:
                self._unescaped = True
                self._out += (self.quote, self._char)
                self._previous = self._char
                self._stop_at_end()
                return
            if self._previous == self.escape and self.escape:
                self._out.append(self.escape)
            self._until(self.quote, self.escape, self.escaped_escape)
            self._previous = self._char
            self._next()
        self._behind()

    def _behind(self) -> None:
        """Pass over the white space behind a value; what follows it makes all one value."""
        space: list[str] = []
        while self._char not in self.ends and self._char <= " ":
            space.append(self._char)
            self._next()
        if space and self._char not in self.ends:
            self._out += (self.quote, *space, self._char)
            self._previous = self._char
            self._stop_at_end()

    def _special(self) -> None:
        """Take a quote or an escape inside of a quoted value."""
        if self._char == self.escape and self._previous == self.escaped_escape and self.escaped_escape:
            self._out.append(self.escape)
            self._char = ""
        elif self._previous == self.escape:
            if self._char == self.quote:
                self._out.append(self.quote)
                self._char = ""
            else:
                self._out.append(self._previous)
        elif self._char == self.quote and self._previous == self.quote:
            self._out.append(self.quote)
        elif self._previous == self.quote:
            self._raw()

    def _raw(self) -> None:
        """Take what follows a quote that did not end its value."""
        self._out.append(self.quote)
        self._previous = self._char
        while self._char not in self.ends:
            if self._char in (self.quote, self.escape):
                self._special()
            elif self._previous == self.quote:
                self._raw()
                return
            else:
                self._out.append(self._char)
            self._previous = self._char
            self._next()


@functools.lru_cache(maxsize=16)
def regular(separator: str, quote: str, escape: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the pattern of lines whose quotes are all at the edges of values, and that of their cells."""
    sep, q, e = (re.escape(text) for text in (separator, quote, escape))
    cell = rf"(?:{q}[^{q}{e}]*{q}|[^{q}{sep}][^{sep}]*|)"
    return re.compile(rf"{cell}(?:{sep}{cell})*"), re.compile(rf"(?:^|{sep})({cell})")


def cells_of(line: str, separator: str, quote: str, escape: str, leading: bool, trailing: bool) -> Cells:
    """Return the cells of one line."""
    if len(separator) > 1:
        found = cells_of(line.replace(separator, PRIVATE), PRIVATE, quote, escape, leading, trailing)
        return [cell and cell.replace(PRIVATE, separator) for cell in found]
    whole, cell = regular(separator, quote, escape)
    if not leading and not trailing and whole.fullmatch(line):
        return [text[1:-1] if text.startswith(quote) else text or None for text in cell.findall(line)]
    rows = CellReader(separator, quote, escape, leading, trailing, "").rows(line)
    return rows[0] if rows else []


def rows_of(text: str, separator: str, quote: str, escape: str, leading: bool, trailing: bool, comment: str) -> list[Cells]:
    """Return the cells of each row of a text, whose values may have line breaks; the separator is one character."""
    return CellReader(separator, quote, escape, leading, trailing, comment).rows(text.replace("\r\n", "\n"))


def cells(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the cells of lines; see CellReader for what follows the lines."""
    lines, *options = columns
    if not len(lines):
        return pa.array([], LIST)
    arguments = [option[0].as_py() for option in options]
    return pa.array([None if line is None else cells_of(line, *arguments) for line in lines.to_pylist()], LIST)


def rows(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the cells of each row of whole files."""
    texts, *options = columns
    if not len(texts):
        return pa.array([], ROWS)
    arguments = [option[0].as_py() for option in options]
    return pa.array([rows_of(text, *arguments) for text in texts.to_pylist()], ROWS)


LIST = pa.list_(pa.string())
ROWS = pa.list_(LIST)
csv_cells = Computed("xpsql_csv_cells", cells, LIST)
csv_rows = Computed("xpsql_csv_rows", rows, ROWS)
