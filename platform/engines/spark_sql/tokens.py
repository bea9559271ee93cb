"""Spark SQL cut into words, and places in its text."""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from ...errors import Position, StatementError


class Words(Spark.Tokenizer):
    """Cuts Spark SQL into words; sqlglot's own takes what follows SHOW as one."""

    COMMANDS: ClassVar[set[TokenType]] = set()


def place(text: str, start: int, end: int) -> Position:
    """Return the position of `text[start:end]`."""
    line = text.count("\n", 0, start) + 1
    return Position(line, start - text.rfind("\n", 0, start), text[start:end])


def find_word(text: str, word: str) -> Position | None:
    """Return the first place where a word stands in a statement, outside strings and comments."""
    for token in tokens_of(text):
        if token.text.lower() == word.lower() and token.token_type != TokenType.STRING:
            return place(text, token.start, token.end + 1)
    return None


def tokens_of(text: str) -> list[Token]:
    """Cut Spark SQL into tokens.

    Raises:
        StatementError: a string or comment does not end.
    """
    try:
        return Words(dialect=Spark()).tokenize(text)
    except TokenError as error:
        raise StatementError("The statement has a string, quoted name or comment that does not end.") from error


def level(token: Token) -> int:
    """Return by how much a token opens or closes."""
    return (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
