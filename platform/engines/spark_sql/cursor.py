"""A cursor over the tokens of a statement of Spark SQL."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from ...errors import Position, StatementError
from .tokens import place, tokens_of
from .tree import Name, Query

DATABASES = ("default", "spark_catalog")


QUERY_STARTS = ("SELECT", "WITH", "VALUES", "FROM", "(")


class Cursor:
    """Reads the tokens of a statement from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = tokens_of(text)
        while self.tokens and self.tokens[-1].token_type == TokenType.SEMICOLON:
            self.tokens.pop()
        self.index = 0

    @property
    def at_end(self) -> bool:
        return self.index >= len(self.tokens)

    @property
    def here(self) -> Token:
        """The next token.

        Raises:
            StatementError: there is none.
        """
        if self.at_end:
            raise StatementError(f"The statement ends too early, after {self.tokens[-1].text!r}. Complete it.")
        return self.tokens[self.index]

    @property
    def position(self) -> Position | None:
        return None if self.at_end else place(self.text, self.here.start, self.here.end + 1)

    def peek(self, *words: str) -> bool:
        """Return whether the next token is one of some words."""
        if self.at_end or self.here.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return False
        return self.here.text.upper() in words

    def accept(self, *words: str) -> bool:
        """Step over a sequence of words, if it comes next."""
        start = self.index
        for word in words:
            if not self.peek(word):
                self.index = start
                return False
            self.index += 1
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.expected(word)

    def expected(self, what: str) -> StatementError:
        found = "the end of the statement" if self.at_end else repr(self.here.text)
        return StatementError(f"{what} was expected, got {found}.", self.position)

    def take(self) -> Token:
        token = self.here
        self.index += 1
        return token

    def identifier(self, what: str) -> str:
        """Step over a name and return it as written."""
        token = self.here
        named = token.text[:1].isalnum() or token.text[:1] == "_" or token.token_type == TokenType.IDENTIFIER
        if token.token_type == TokenType.STRING or not named:
            raise self.expected(what)
        return self.take().text

    def name(self) -> Name:
        """Step over the name of a table or view, `t` or `default.t`."""
        first = self.here
        parts = [self.identifier("The name of a table or view")]
        while self.accept("."):
            parts.append(self.identifier("The name of a table or view"))
        position = place(self.text, first.start, self.tokens[self.index - 1].end + 1)
        return Name(unqualified(parts, position), position, len(parts) > 1)

    def query(self) -> Query:
        """Step over the rest, a query."""
        if not self.peek(*QUERY_STARTS):
            raise self.expected("A query")
        start, end = self.here.start, self.tokens[-1].end + 1
        self.index = len(self.tokens)
        return Query(blanked(self.text[:start]) + self.text[start:end])

    def parenthesised(self) -> str:
        """Step over `( ... )` and return what is inside, at its place."""
        opening, depth = self.here, 0
        self.expect("(")
        while depth or not self.peek(")"):
            depth += self.peek("(") - self.peek(")")
            self.take()
        closing = self.take()
        return blanked(self.text[: opening.end + 1]) + self.text[opening.end + 1 : closing.start]

    def end(self) -> None:
        if not self.at_end:
            raise self.expected("The end of the statement")


def blanked(text: str) -> str:
    """Return white space of the same lines and columns as a text."""
    return "".join(c if c == "\n" else " " for c in text)


def unqualified(parts: list[str], position: Position | None) -> str:
    """Return the name of a table without its database.

    Raises:
        StatementError: a database that the warehouse does not have.
    """
    *databases, name = (part.lower() for part in parts)
    for database in databases:
        if database not in DATABASES:
            raise StatementError(f"There is no database {database}; the warehouse has one, named default.", position)
    return name
