"""Reading one statement, token by token: what every statement's and table function's parser is written with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ...errors import Position, StatementError, suggestion
from ...options import Value
from .hparams import Hparam, HparamCandidates, HparamRange
from .lexer import Token, tokenize, unquote
from .passage import Passage

T = TypeVar("T")
CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}
CANDIDATES = "HPARAM_CANDIDATES"
HPARAMS = ("HPARAM_RANGE", CANDIDATES)  # what TUNE tries
RELATIONS = ("=", "<", ">")
RESERVED = frozenset({"AS", "FROM", "SELECT", "USING", "WHERE", "WITH"})  # never names, unless in backticks


class Cursor:
    """A place in the tokens of one statement, and the ways to read on from it.

    Words are compared without case. Positions refer to the script that contains the statement.

    Example:
        cursor = Cursor.of("DROP MODEL IF EXISTS m")
        cursor.expect("DROP", "MODEL")
        careful = cursor.accept("IF", "EXISTS")
        name = cursor.identifier("a model name")
        cursor.done()
    """

    def __init__(self, passage: Passage, tokens: Sequence[Token]) -> None:
        self.passage = passage
        self.tokens = tokens
        self.index = 0
        self._list_end = -1  # where the last list that was read ended; a comma would continue it

    @classmethod
    def of(cls, text: str) -> Cursor:
        """Return a cursor at the start of one statement."""
        passage = Passage.of(text)
        return cls(passage, tokenize(passage))

    @property
    def at_end(self) -> bool:
        """Whether all of the statement is read."""
        return self.index >= len(self.tokens)

    @property
    def statement(self) -> str:
        """The whole statement as written, from its first to its last token."""
        return self.passage.text[self.tokens[0].start : self.tokens[-1].end] if self.tokens else ""

    @property
    def next_kind(self) -> str:
        """The kind of the next token; "end" at the end."""
        return "end" if self.at_end else self.tokens[self.index].kind

    def peek(self, *words: str) -> bool:
        """Return whether these words or symbols, in this order, come next."""
        ahead = self.tokens[self.index : self.index + len(words)]
        return len(ahead) == len(words) and all(
            token.kind in ("word", "symbol") and token.text.upper() == word.upper()
            for token, word in zip(ahead, words, strict=True)
        )

    def accept(self, *words: str) -> bool:
        """Read these words or symbols if all of them come next, in this order; return whether they did."""
        found = self.peek(*words)
        if found:
            self.index += len(words)
        return found

    def expect(self, *words: str) -> None:
        """Read these words or symbols.

        Raises:
            StatementError: something else comes.
        """
        for word in words:
            if not self.accept(word):
                what = word.upper() if word[0].isalpha() else repr(word)
                raise self.expected(f"',' or {what}" if word == ")" and self.index == self._list_end else what)

    def identifier(self, what: str) -> str:
        """Read a name, plain or in backticks. `what` says what is expected here: "a model name"."""
        if not self.at_end and self.tokens[self.index].text.upper() in RESERVED:
            raise self.expected(what)
        return self.take(("word", "quoted"), what).name

    def integer(self, what: str) -> int:
        """Read a non-negative whole number."""
        if not self.at_end and not self.tokens[self.index].text.isdecimal():
            raise self.expected(what)
        return int(self.take(("number",), what).text)

    def string(self, what: str) -> str:
        """Read a string literal and return the text that it stands for."""
        return unquote(self.take(("string",), what).text)

    def table(self) -> Passage:
        """Read the name of a table, `a.b.c` with or without backticks, and return it as written."""
        start = self.index
        self.identifier("a table")
        while self.accept("."):
            self.identifier("a table")
        return self.passage.cut(self.tokens[start].start, self.tokens[self.index - 1].end)

    def columns(self, what: str) -> tuple[str, ...]:
        """Read one or more names with commas between them."""
        return self.listed(lambda: self.identifier(what))

    def options(self) -> dict[str, Value]:
        """Read a parenthesised list `(name = value, ...)`, possibly empty; no name may come twice.

        A bound is written with its sign: `(utility > 0.5)`. The position of each value is that of its whole `name = value`.
        """
        options: dict[str, Value] = {}
        self.expect("(")
        if self.accept(")"):
            return options
        for name, value in self.listed(self.option):
            if name in options:
                raise StatementError(f"The option {name} is given twice.", value.position)
            options[name] = value
        self.expect(")")
        return options

    def option(self) -> tuple[str, Value]:
        """Read one `name = value`, `name < value` or `name > value`; the name in lower case."""
        first = self.index
        name = self.identifier("an option name").lower()
        relation = next((sign for sign in RELATIONS if self.accept(sign)), None)
        if relation is None:
            raise self.expected("'='")
        value = self.value()
        return name, Value(value, self.span(first), relation)

    def value(self) -> Any:
        """Read a number, string, TRUE, FALSE, NULL, name, `name.field`, `slot AS slot` or `slot IN vectors`, or a tuple of
        them in parentheses."""
        if self.accept("("):
            values = () if self.peek(")") else self.listed(self.value)
            self.expect(")")
            return values
        if self.accept("-"):
            return -self.number()
        token = self.take(("number", "string", "word", "quoted"), "a value")
        if token.kind == "number":
            return number(token)
        if token.kind == "string":
            return unquote(token.text)
        if token.kind == "word" and token.text.upper() in HPARAMS and self.peek("("):
            return self.hparam(token.text.upper())
        if token.kind == "word" and token.text.upper() in CONSTANTS:
            return CONSTANTS[token.text.upper()]
        name = token.name
        while self.accept("."):
            name = f"{name}.{self.identifier('a field')}"
        return (name, self.identifier("a name")) if self.accept("AS") or self.accept("IN") else name

    def hparam(self, word: str) -> Hparam:
        """Read what follows HPARAM_RANGE or HPARAM_CANDIDATES."""
        first = self.index - 1
        self.expect("(")
        values = self.listed(self.value)
        self.expect(")")
        if word == CANDIDATES:
            return HparamCandidates(values)
        if len(values) != 2 or not all(type(end) in (int, float) for end in values) or not values[0] < values[1]:
            raise StatementError("HPARAM_RANGE expects two numbers, the lower one first: (0.01, 1).", self.span(first))
        return HparamRange(*values)

    def number(self) -> int | float:
        """Read an unsigned number."""
        return number(self.take(("number",), "a number"))

    def listed(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Read one or more of something with commas between them."""
        items = [read()]
        while self.accept(","):
            items.append(read())
        self._list_end = self.index
        return tuple(items)

    def closing(self) -> int:
        """Return the number of the token that closes the parenthesis here.

        Raises:
            StatementError: nothing does.
        """
        depth = 0
        for index in range(self.index, len(self.tokens)):
            token = self.tokens[index]
            if token.kind == "symbol" and token.text in "()":
                depth += 1 if token.text == "(" else -1
                if depth == 0:
                    return index
        raise self.error("This parenthesis is not closed.")

    def parenthesised(self) -> Passage:
        """Read a parenthesised text and return its content."""
        if not self.peek("("):
            raise self.expected("(")
        start, close = self.tokens[self.index].end, self.closing()
        self.index = close + 1
        return self.passage.cut(start, self.tokens[close].start)

    def remainder(self, what: str = "a query") -> Passage:
        """Read everything up to the end of the statement, as a passage that puts errors in their place."""
        if self.at_end:
            raise self.expected(what)
        start = self.tokens[self.index].start
        self.index = len(self.tokens)
        return self.passage.cut(start, self.tokens[-1].end)

    def done(self) -> None:
        """Require the end of the statement."""
        if not self.at_end:
            raise self.expected("the end of the statement")

    def position(self) -> Position:
        """Return where the next token stands; at the end, the place just after the last one."""
        if self.at_end:
            return self.passage.position(self.tokens[-1].end if self.tokens else 0, "end of statement")
        token = self.tokens[self.index]
        return self.passage.position(token.start, token.text)

    def span(self, first: int) -> Position:
        """Return the position and text of the tokens from number `first` to the last one read."""
        start, end = self.tokens[first].start, self.tokens[self.index - 1].end
        return self.passage.position(start, self.passage.text[start:end])

    def error(self, message: str) -> StatementError:
        """Return an error about the next token."""
        return StatementError(message, self.position())

    def expected(self, what: str, valid: Iterable[str] = ()) -> StatementError:
        """Return the error that `what` was expected here; `valid` lists what can be written, for the nearest name."""
        position = self.position()
        names = list(valid)
        came = position.text if self.at_end else repr(position.text)
        return StatementError(f"Expected {what}, got {came}.{suggestion(position.text, names) if names else ''}", position)

    def take(self, kinds: tuple[str, ...], what: str) -> Token:
        """Read one token of these kinds."""
        if self.at_end or self.tokens[self.index].kind not in kinds:
            raise self.expected(what)
        self.index += 1
        return self.tokens[self.index - 1]


def number(token: Token) -> int | float:
    """Return the number that a literal such as 12, 1.5, 1e-3, 10L or 2.5D stands for."""
    text = token.text.rstrip("LSYDFB")
    return int(text) if text.isdecimal() else float(text)
