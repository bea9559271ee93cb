"""The lexer: text to tokens, with Spark SQL's words, names, strings, numbers and comments, and the position of each.

Written here rather than taken from a parser library: a message needs the exact start of every token, an unclosed string its
opening quote, and a script its `${name}`; and the words after SHOW must stay words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ...errors import Position, StatementError
from .passage import Passage

VARIABLE = re.compile(r"\$?\$\{\w*(?::-[^}]*)?\}")
PATTERNS = {
    "space": r"\s+|--[^\n]*",
    "comment": r"/\*",
    "string": r"[rR]'[^']*'|[rR]\"[^\"]*\"|'(?:[^'\\]++|\\.|'')*+'|\"(?:[^\"\\]++|\\.|\"\")*+\"",
    "quoted": r"`(?:[^`]++|``)*+`",
    "variable": VARIABLE.pattern,
    "number": r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[LSYDF]|BD)?(?!\w)",
    "word": r"\w+",
    "open": r"['\"`]",
    "symbol": r".",
}
TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in PATTERNS.items()), re.DOTALL)
COMMENT_EDGE = re.compile(r"/\*|\*/")
KEPT: WeakKeyDictionary[Passage, tuple[Token, ...]] = WeakKeyDictionary()


class Token(NamedTuple):
    """One token: kind is word, quoted (a backticked name), string, number, variable or symbol; text is as written."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def name(self) -> str:
        """The identifier that a word or a backticked name stands for."""
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text


def tokenize(passage: Passage) -> tuple[Token, ...]:
    """Return the tokens of a text, without comments; they are kept for as long as the passage is.

    Raises:
        StatementError: a string, backticked name or comment that is not closed.
    """
    found = KEPT.get(passage)
    return tuple(reading(passage)) if found is None else found


def reading(passage: Passage) -> Iterator[Token]:
    """Yield the tokens of a text one by one, for callers that may end early; `tokenize` has them after the last one."""
    found = KEPT.get(passage)
    if found is not None:
        yield from found
        return
    tokens = []
    for token in scan(passage):
        tokens.append(token)
        yield token
    KEPT[passage] = tuple(tokens)


def tokens_of(text: str) -> tuple[Token, ...]:
    """Return the tokens of a text that is a script of its own."""
    return tokenize(Passage.of(text))


def level(token: Token) -> int:
    """Return by how much a token opens or closes."""
    return (token.text == "(") - (token.text == ")")


def find_word(text: str, word: str) -> Position | None:
    """Return the first place where a word or name stands in a statement, outside strings and comments."""
    passage = Passage.of(text)
    for token in tokenize(passage):
        if token.kind in ("word", "quoted") and token.name.lower() == word.lower():
            return passage.position(token.start, token.text)
    return None


def scan(passage: Passage) -> Iterator[Token]:
    place = 0
    while match := TOKEN.match(passage.text, place):
        kind, place = str(match.lastgroup), match.end()
        if kind == "comment":
            place = comment_end(passage, match.start())
        elif kind == "open":
            raise unclosed("string or name", passage, match.start())
        elif kind != "space":
            yield Token(kind, match.group(), match.start())


def comment_end(passage: Passage, start: int) -> int:
    """Return where the comment that starts here ends; comments nest, as in Spark."""
    depth = 0
    for edge in COMMENT_EDGE.finditer(passage.text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise unclosed("comment", passage, start)


def unclosed(what: str, passage: Passage, start: int) -> StatementError:
    line = passage.text[start:].partition("\n")[0]
    return StatementError(f"This {what} is not closed.", passage.position(start, line))


def find_string(text: str, value: str) -> Position | None:
    """Return the first place where a string literal of this value stands in a statement."""
    passage = Passage.of(text)
    for token in tokenize(passage):
        if token.kind == "string" and unquote(token.text) == value:
            return passage.position(token.start, token.text)
    return None


ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}|[0-3][0-7]{2}|.)", re.DOTALL)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def unquote(literal: str) -> str:
    """Return the text that a Spark string literal stands for."""
    if literal[0] in "rR":
        return literal[2:-1]
    quote = literal[0]
    return ESCAPE.sub(unescape, literal[1:-1].replace(quote * 2, quote))


def unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] in "uU" and len(code) > 1:
        return chr(int(code[1:], 16))
    if len(code) == 3:
        return chr(int(code, 8))
    return ESCAPED.get(code, code)


def insert_in(tokens: Sequence[Token]) -> int | None:
    """Return the number of the token INSERT that stands outside of parentheses before INTO or OVERWRITE; None without one."""
    depth = 0
    for number, (token, after) in enumerate(pairwise(tokens)):
        depth += level(token)
        if depth == 0 and token.text.upper() == "INSERT" and after.text.upper() in ("INTO", "OVERWRITE"):
            return number
    return None
