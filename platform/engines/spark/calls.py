"""xpsql's own functions in statements for Spark: calls replaced by the Spark SQL that they stand for.

Only the calls change; all else reaches Spark as written. A result column without a name keeps the one that it would have had:
after SELECT, `auc(label, p)` becomes `xpsql_auc(...)` with the name `auc(label, p)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ...errors import Position, StatementError
from ...quoting import quoted
from ...udf import FUNCTIONS
from ..spark_sql.declared import expand
from ..spark_sql.dialect import SparkSQL, parse
from ..spark_sql.lexer import Token, level, tokens_of
from ..spark_sql.names import pretty
from ..spark_sql.passage import place
from ..spark_sql.statements import FORMATS

FILES = (*FORMATS, "avro", "orc", "text")
NAMES = frozenset(function.name for function in FUNCTIONS)
SET_OPERATORS = ("UNION", "EXCEPT", "MINUS", "INTERSECT")
ENDS = frozenset(("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "WINDOW", "LATERAL", *SET_OPERATORS))


@dataclass(frozen=True)
class Edit:
    """A piece of a text and what stands in its place."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class RewrittenStatement:
    """A statement as the user wrote it, and as Spark gets it.

    Attributes:
        edits: what was changed, in order, without overlaps.
    """

    written: str
    edits: tuple[Edit, ...] = ()

    @property
    def text(self) -> str:
        """The statement as Spark gets it."""
        parts, at = [], 0
        for edit in self.edits:
            parts += [self.written[at : edit.start], edit.text]
            at = edit.end
        return "".join([*parts, self.written[at:]])

    def position(self, start: int, end: int) -> Position:
        """Return where the user wrote `text[start:end]`; in a piece that was changed, the same words or its beginning."""
        shift = 0
        for edit in self.edits:
            first = edit.start + shift
            if end <= first:
                break
            if start < first + len(edit.text):
                return self._inside(edit, self.text[start:end])
            shift += len(edit.text) - (edit.end - edit.start)
        return place(self.written, start - shift, end - shift)

    def _inside(self, edit: Edit, words: str) -> Position:
        at = self.written.find(words, edit.start, edit.end)
        return place(self.written, edit.start, edit.end) if at < 0 else place(self.written, at, at + len(words))


def sent(text: str) -> RewrittenStatement:
    """Return a statement with our functions' calls in Spark SQL, and DESCRIBE of files as that of a query over them.

    Raises:
        StatementError: a call has a wrong number of arguments, or a string does not end.
    """
    tokens = tokens_of(text)
    if (place_of_files := described_files(tokens)) is not None:
        return RewrittenStatement(text, (Edit(tokens[0].end, place_of_files, " QUERY SELECT * FROM "),))
    calls = list(calls_in(tokens))
    if not calls:
        return RewrittenStatement(text)
    edits = [Edit(start, end, in_spark_sql(text, start, end)) for start, end in calls]
    edits += [Edit(end, end, f" AS {name}") for end, name in unnamed_items(text, tokens, calls)]
    return RewrittenStatement(text, tuple(sorted(edits, key=lambda edit: edit.start)))


def described_files(tokens: Sequence[Token]) -> int | None:
    """Return where files begin that a statement describes, as in DESCRIBE parquet.`f`, which Spark takes for a table's name;
    None for other statements."""
    words = [token.text.upper() for token in tokens[:3]]
    first = 2 if words[1:2] == ["TABLE"] else 1
    if words[:1] not in (["DESC"], ["DESCRIBE"]) or [token.text for token in tokens[first + 1 : first + 2]] != ["."]:
        return None
    named = tokens[first].text.lower() in FILES and tokens[first + 2 :] and tokens[first + 2].kind == "quoted"
    return tokens[first].start if named else None


def calls_in(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the places of the outermost calls, with their FILTER and OVER."""
    index = 0
    while index + 1 < len(tokens):
        if not opens(tokens, index) or (index and tokens[index - 1].text in (".", "FUNCTION")):
            index += 1
            continue
        start, index = tokens[index].start, closing(tokens, index + 1)
        while index + 1 < len(tokens) and tokens[index + 1].text.upper() in ("FILTER", "OVER"):
            named = index + 2 < len(tokens) and tokens[index + 2].text != "("
            index = index + 2 if named else closing(tokens, index + 2)
        yield start, tokens[index].end
        index += 1


def opens(tokens: Sequence[Token], index: int) -> bool:
    token = tokens[index]
    return token.text.lower() in NAMES and tokens[index + 1].text == "("


def closing(tokens: Sequence[Token], index: int) -> int:
    """Return the number of the token that closes the parenthesis of another, or the last one where none does."""
    depth = 0
    for number in range(index, len(tokens)):
        depth += level(tokens[number])
        if depth <= 0:
            return number
    return len(tokens) - 1


def in_spark_sql(text: str, start: int, end: int) -> str:
    """Return the Spark SQL of a call.

    Raises:
        StatementError: it is not complete, or has a wrong number of arguments.
    """
    try:
        tree = parse(f"SELECT {text[start:end]}")
        expand(tree)
    except StatementError as error:
        raise StatementError(error.message, place(text, start, end)) from error
    return str(tree.expressions[0].sql(dialect=SparkSQL, normalize_functions=False))


def unnamed_items(text: str, tokens: Sequence[Token], calls: Sequence[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """Yield where items of SELECTs that hold calls and have no name end, and the names that they get."""
    for start, end in items_of(tokens):
        if any(start <= first and last <= end for first, last in calls):
            item = parse(f"SELECT {text[start:end]}").expressions[0]
            if not isinstance(item, exp.Alias | exp.Aliases):
                relations = {column.parts[0].name.lower() for column in item.find_all(exp.Column)}  # no parsed query tells them
                yield end, quoted(pretty(item, relations))


def items_of(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the places of the items of all SELECTs."""
    for number, token in enumerate(tokens):
        if token.text.upper() == "SELECT":
            for first, last in items_from(tokens, number + 1):
                yield tokens[first].start, tokens[last].end


def items_from(tokens: Sequence[Token], first: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last token of each item of one SELECT."""
    depth = 0
    for index in range(first, len(tokens)):
        token = tokens[index]
        depth += level(token)
        if depth < 0 or (depth == 0 and token.text.upper() in ENDS):
            yield first, index - 1
            return
        if depth == 0 and token.text == ",":
            yield first, index - 1
            first = index + 1
    yield first, len(tokens) - 1
