"""Limits on the length and depth of statements, checked before they are parsed."""

from __future__ import annotations

from ...errors import StatementError
from .lexer import reading, tokenize
from .passage import Passage

MOST_TOKENS = 200_000  # ten seconds of reading and translating
MOST_TERMS = 2_000  # each is a level of the tree, of which Python's stack holds some hundreds
JOINING = frozenset({"OR", "AND", "+", "-", "*", "/", "%", "|", "&", "^"})
ENDING = frozenset({",", "CASE", "WHEN", "THEN", "ELSE", "END", "SELECT", "FROM", "WHERE", "HAVING", "ON", "JOIN", "UNION"})
DEEP = (
    "The statement nests too deeply to be read, in parentheses or by hundreds of terms joined by an operator such as "
    "+ or OR. Write a list (IN, array functions, VALUES), or cut it into queries (WITH)."
)


def check_length(script: Passage, most: int | None) -> None:
    """Require that no statement of a script has more tokens than an engine reads; the first too many ends the reading.

    Raises:
        StatementError: with the place of that token.
    """
    if most is None or len(script.text) <= most:
        return
    number = 0
    for token in reading(script):
        number = 0 if token.text == ";" else number + 1
        if number > most:
            message = (
                f"The statement has more than {most:,} words, values and symbols, the most that can be read. "
                "Put the values into a table, or register a frame, and join it."
            )
            raise StatementError(message, script.position(token.start, token.text))


def check_size(text: str) -> None:
    """Require that a statement can be read in seconds.

    Raises:
        StatementError: it has too many tokens, with the place of the first of them, or too many terms joined by operators.
    """
    if len(text) <= MOST_TERMS:
        return
    passage = Passage.of(text)
    check_length(passage, MOST_TOKENS)
    terms = [0]
    for token in tokenize(passage):
        word = token.text.upper() if token.kind in ("word", "symbol") else ""
        if word == "(":
            terms.append(0)
        elif word == ")" and len(terms) > 1:
            terms.pop()
        elif word in ENDING:
            terms[-1] = 0
        elif word in JOINING:
            terms[-1] += 1
        if max(terms[-1], len(terms)) > MOST_TERMS:
            raise StatementError(DEEP)  # the whole statement is what nests
