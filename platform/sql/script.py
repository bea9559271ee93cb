"""Scripts: statements separated by `;`, with `${name}` replaced before they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from ..errors import Position, StatementError, suggestion
from .base import Command, Statement
from .cursor import Cursor
from .lexer import VARIABLE, Token, tokenize
from .passage import Passage
from .query import Query
from .statements import STATEMENTS


class Step(NamedTuple):
    """A statement of a script: what it does, and where it starts."""

    command: Command
    position: Position


def parse_script(text: str, variables: Mapping[str, str]) -> tuple[Step, ...]:
    """Parse every statement of a script; nothing runs.

    Args:
        text: the script. `${name}` is replaced everywhere but in comments; `$${name}` stands for `${name}`.
        variables: the values of names.

    Raises:
        StatementError: a statement of ours that cannot be read, or a variable without value; positions are the script's.
    """
    passage = substituted(Passage.of(text), variables)
    return tuple(parse_step(cursor) for cursor in statements(passage))


def parse_step(cursor: Cursor) -> Step:
    position = start(cursor)
    with refusing_depth(position):
        return Step(parse_statement(cursor), position)


@contextmanager
def refusing_depth(position: Position) -> Iterator[None]:
    """Make it an error of the statement that it nests more deeply than Python's stack."""
    try:
        yield
    except RecursionError as error:
        raise StatementError(
            "The statement nests too deeply to be read, in parentheses or by hundreds of terms joined by an operator such as "
            "+ or OR. Write a list (IN, array functions, VALUES), or cut it into queries (WITH).",
            position,
        ) from error


def statements(passage: Passage) -> Iterator[Cursor]:
    """Split a text at its semicolons, and give a cursor for each statement that is not empty."""
    tokens: list[Token] = []
    for token in tokenize(passage):
        if token.text != ";":
            tokens.append(token)
        elif tokens:
            yield Cursor(passage, tokens)
            tokens = []
    if tokens:
        yield Cursor(passage, tokens)


def start(cursor: Cursor) -> Position:
    """Return where a statement starts; its first line stands for its text."""
    token = cursor.tokens[0]
    return cursor.passage.position(token.start, cursor.statement.partition("\n")[0])


def parse_statement(cursor: Cursor) -> Command:
    """Parse one statement: ours by its leading words, anything else as a query of the engine's."""
    statement = find_statement(cursor)
    if statement is None:
        return Query.of(cursor.remainder())
    cursor.expect(*statement.name.split())
    command = statement.parse(cursor)
    cursor.done()
    return command


def find_statement(cursor: Cursor) -> Statement | None:
    """Return the statement of ours with the longest name that comes next.

    Raises:
        StatementError: a first word that only our statements have, followed by something else.
    """
    matching = [statement for statement in STATEMENTS if cursor.peek(*statement.name.split())]
    if matching:
        return max(matching, key=lambda statement: len(statement.name.split()))
    ours = [statement.name for statement in STATEMENTS if cursor.peek(statement.name.split()[0])]
    if ours and cursor.tokens[0].text.upper() not in SHARED_WORDS:
        cursor.index = 1
        raise cursor.expected(" or ".join(name.partition(" ")[2] for name in ours))
    return None


SHARED_WORDS = frozenset({"SHOW", "DESCRIBE", "DESC", "EXPLAIN", "ALTER", "DROP"})  # also begin statements of the engine's


def substituted(passage: Passage, variables: Mapping[str, str]) -> Passage:
    """Return the text with its variables replaced.

    Raises:
        StatementError: a variable without value.
    """
    edits = []
    for token in tokenize(passage):
        if token.kind in ("variable", "string", "quoted"):
            for match in VARIABLE.finditer(token.text):
                start = token.start + match.start()
                edits.append((start, start + len(match.group()), value(passage, start, match.group(), variables)))
    return passage.replaced(edits)


def value(passage: Passage, start: int, written: str, variables: Mapping[str, str]) -> str:
    if written.startswith("$$"):
        return written[1:]
    name = written[2:-1]
    if name not in variables:
        message = f"The variable {name!r} has no value; give it with -D {name}=value.{suggestion(name, variables)}"
        raise StatementError(message, passage.position(start, written))
    return variables[name]
