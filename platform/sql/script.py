"""Scripts: statements separated by `;`, with `${name}` replaced before they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ..engines.spark_sql.lexer import VARIABLE, Token, tokenize
from ..engines.spark_sql.limits import DEEP, check_length
from ..engines.spark_sql.passage import Passage
from ..errors import NO_MEMORY, Position, StatementError, is_of_memory, suggestion
from .base import Command, Statement
from .cursor import Cursor
from .parameters import Parameters, bound
from .query import Query
from .statements import STATEMENTS

if TYPE_CHECKING:
    from ..engines.base import Statements


class Step(NamedTuple):
    """A statement of a script: its command, where it starts, and its text."""

    command: Command
    position: Position
    text: Passage

    @property
    def model(self) -> str | None:
        """The model that it names first, if any."""
        for before, token in pairwise(tokenize(self.text)):
            if before.text.upper() == "MODEL" and token.kind in ("word", "quoted"):
                return token.name
        return None

    def place_of(self, model: str | None) -> Position | None:
        """Return where it names a model, if it does."""
        tokens = tokenize(self.text)
        for before, token in pairwise(tokens):
            if before.text.upper() == "MODEL" and token.kind in ("word", "quoted") and token.name == model:
                return self.text.position(token.start, token.text)
        return None


def parse_script(
    text: str, variables: Mapping[str, str], parameters: Parameters | None, others: Statements
) -> tuple[Step, ...]:
    """Parse every statement of a script; nothing runs.

    Args:
        text: the script. `${name}` is replaced everywhere but in comments; `$${name}` stands for `${name}`.
            `${name:-default}` is the default where the name has no value, or an empty one, as in shells.
        variables: the values of names.
        parameters: the values of `?` or `:name`, which become literals; None where there are none.
        others: the statements of the engine.

    Raises:
        StatementError: one of our statements cannot be parsed, neither we nor the engine have such a statement, or a variable
            or parameter has no value; positions refer to the script.
    """
    if not isinstance(text, str):
        raise StatementError(f"Expected a text of statements, got {type(text).__name__}.")
    written = Passage.of(text)
    check_length(written, others.most_tokens)
    passage = substituted(written, variables, parameters)
    check_length(passage, others.most_tokens)
    return tuple(parse_step(cursor, others) for cursor in statements(passage))


def parse_step(cursor: Cursor, others: Statements) -> Step:
    position = start(cursor)
    with refusing_excess(position):
        text = cursor.passage.cut(cursor.tokens[0].start, cursor.tokens[-1].end)
        return Step(parse_statement(cursor, others), position, text)


@contextmanager
def refusing_excess(position: Position) -> Iterator[None]:
    """Make it an error of the statement that it nests more deeply than Python's stack, or that memory ends."""
    try:
        yield
    except RecursionError as error:
        raise StatementError(DEEP, position) from error
    except Exception as error:
        if not is_of_memory(error):
            raise
        raise StatementError(NO_MEMORY, position) from error


def statements(passage: Passage) -> Iterator[Cursor]:
    """Split a text at its semicolons, and yield a cursor for each statement that is not empty."""
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


def parse_statement(cursor: Cursor, others: Statements) -> Command:
    """Parse one statement: ours by its leading words, anything else as one of the engine's."""
    statement = find_statement(cursor, others)
    if statement is None:
        return Query.of(cursor.remainder())
    cursor.expect(*statement.name.split())
    command = statement.parse(cursor)
    cursor.done()
    return command


def find_statement(cursor: Cursor, others: Statements) -> Statement | None:
    """Return the statement of ours with the longest name that comes next; None for one of the engine's.

    Raises:
        StatementError: it is neither.
    """
    names = [tuple(name.split()) for name in (*STATEMENTS.names, *others.names)]
    matching = [words for words in names if cursor.peek(*words) and not describes_table(cursor, words)]
    if matching:
        longest = max(matching, key=len)
        return STATEMENTS.find(" ".join(longest))
    if cursor.peek("CREATE", "MODEL") or cursor.peek("CREATE", "OR", "REPLACE", "MODEL"):
        raise cursor.error("Models are made by TRAIN [OR REPLACE] MODEL name USING algorithm AS query.")
    if (instead := INSTEAD.get(cursor.tokens[0].text.upper())) is not None:
        raise cursor.error(instead)
    if others.others and not any(cursor.peek(words[0]) for words in names):
        return None
    raise unknown(cursor, names)


def describes_table(cursor: Cursor, words: tuple[str, ...]) -> bool:
    """Return whether the last of the words names a table, as some are called: DESCRIBE features, DESCRIBE history.seen."""
    following = cursor.tokens[cursor.index + len(words) :]
    return words in DESCRIBED and (not following or following[0].text == ".")


DESCRIBED = ("DESCRIBE", "FEATURES"), ("DESCRIBE", "HISTORY")


def may_begin(word: str, others: Statements) -> bool:
    """Return whether a statement, ours or one of the engine, may begin with a word."""
    return others.others or word.upper() in {name.split()[0] for name in (*STATEMENTS.names, *others.names)}


INSTEAD = {
    "SUMMARIZE": "There is no SUMMARIZE. DESCRIBE t lists columns and their types; SELECT count(x), min(x), avg(x), max(x), "
    "approx_count_distinct(x) FROM t measures one.",
    "EXPLAIN": "EXPLAIN shows what a training would take: EXPLAIN TRAIN MODEL ... or EXPLAIN CONTINUE MODEL .... "
    "DESCRIBE SELECT ... lists the columns of a query.",
}
"""What to write for the statements of other systems, by their first word."""


def unknown(cursor: Cursor, names: list[tuple[str, ...]]) -> StatementError:
    """Return the error for a statement that begins with none of these names, at its first word that does not fit."""
    depth = 0
    while fitting := [words for words in names if cursor.peek(*words[: depth + 1])]:
        names, depth = fitting, depth + 1
    cursor.index = depth
    valid = {words[depth] for words in names}
    if len(valid) == 1:
        return cursor.expected(*valid)
    return cursor.expected(f"a word that follows {' '.join(names[0][:depth])}" if depth else "a statement", valid)


def substituted(passage: Passage, variables: Mapping[str, str], parameters: Parameters | None) -> Passage:
    """Return the text with its variables and parameters replaced; what takes their place is not searched for others.

    Raises:
        StatementError: a variable or parameter without value.
    """
    tokens = tokenize(passage)
    edits = bound(passage, tokens, parameters)
    for token in tokens:
        if token.kind in ("variable", "string", "quoted"):
            for match in VARIABLE.finditer(token.text):
                start = token.start + match.start()
                edits.append((start, start + len(match.group()), value(passage, start, match.group(), variables)))
    return passage.replaced(sorted(edits)) if edits else passage


def value(passage: Passage, start: int, written: str, variables: Mapping[str, str]) -> str:
    if written.startswith("$$"):
        return written[1:]
    name, defaulted, default = written[2:-1].partition(":-")
    if "{" in default:
        raise StatementError(
            f"The default of the variable {name!r} has a brace, which no default may have. Give the variable a value instead.",
            passage.position(start, written),
        )
    if defaulted and not variables.get(name):
        return default
    if name not in variables:
        ways = f"with -D {name}=value, in Python with sql(..., {name}=value)"
        message = f"The variable {name!r} has no value; give it {ways}.{suggestion(name, variables)}"
        raise StatementError(message, passage.position(start, written))
    return variables[name]


@contextmanager
def at_statement(position: Position) -> Iterator[None]:
    """Give an error of the block that has no place that of its statement."""
    try:
        yield
    except StatementError as error:
        raise error if error.position is not None else error.at(position) from error.__cause__
