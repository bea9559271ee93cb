"""What the shell completes: leading words of statements, keywords, functions, and names of models, tables and columns; in a
training algorithms, operators and options where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from .. import parts
from ..engines.spark_sql.lexer import Token, level, tokens_of
from ..errors import StatementError, XpsqlError
from ..options import Described, describe
from ..session import Session
from ..sql.functions import FUNCTIONS
from ..sql.statements import STATEMENTS
from ..training.clauses import CLAUSES
from ..training.clauses.settings import Settings
from ..training.metrics import metric_names

WORD = re.compile(r"[\w.]+$")
AFTER_RELATION = re.compile(r"\b(?:FROM|JOIN|TABLE|INTO|DESCRIBE)\s+[\w.]*$", re.IGNORECASE)
OF_COLUMNS = re.compile(
    r"\b(?:LABEL|WEIGHT|TIME|GROUP|IGNORE\s*\(|CROSS\s*\(|EVERY .* BY)\s*(?:\w+\s*[,*]\s*)*\w*$", re.IGNORECASE
)
OF_METRICS = re.compile(r"\b(?:TUNE\s+BY|RELEASE\s+WHEN)\s+\w*$", re.IGNORECASE)
UPPER = re.compile(r"[A-Z]{2,}")
AFTER_MODEL = re.compile(r"\bMODEL\s+\w*$", re.IGNORECASE)
RELATION = re.compile(r"\b(?:FROM|JOIN|TABLE)\s+`?([\w.]+)`?", re.IGNORECASE)
MOST_TABLES = 20
# fmt: off
KEYWORDS = (
    "ALL", "AND", "AS", "BETWEEN", "BY", "CASE", "CREATE", "DISTINCT", "DROP", "ELSE", "END", "FROM", "GROUP", "HAVING",
    "IN", "INNER", "INSERT", "INTO", "IS", "JOIN", "LEFT", "LIKE", "LIMIT", "MODEL", "NOT", "NULL", "ON", "OPTIONS", "OR",
    "ORDER", "SELECT", "SHOW", "TABLE", "TABLES", "TEMPORARY", "THEN", "UNION", "USING", "VERSION", "VIEW", "WHEN", "WHERE",
    "WITH",
)
# fmt: on


class Names(Completer):
    """Completes the word before the cursor from what fits there."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        found = WORD.search(text)
        word = found.group() if found else ""
        for name in sorted(set(self.fitting(text, document.text)), key=str.lower):
            if name.lower().startswith(word.lower()):
                yield Completion(name, start_position=-len(word))

    def fitting(self, before: str, whole: str) -> Iterable[str]:
        """Return the names that may come next: models after MODEL, tables after FROM, anything else elsewhere."""
        if AFTER_MODEL.search(before):
            return self.session.models.names()
        if (names := of_training(before)) is not None:
            return names
        columns = self.columns(whole) if RELATION.search(whole) else self.all_columns()
        if OF_COLUMNS.search(before):
            return columns
        if OF_METRICS.search(before):
            return metric_names(grouped=True)
        functions = [f"ML.{name}" for name in FUNCTIONS.names]
        if AFTER_RELATION.search(before):
            return [*self.session.engine.relations(), *functions]
        typed = WORD.sub("", before).upper().split()
        if begun := [name for name in STATEMENTS.names if name.split()[: len(typed)] == typed != name.split()]:
            return [*(" ".join(name.split()[len(typed) :]) for name in begun), *KEYWORDS]
        return [*words_of(typed), *KEYWORDS, *functions, *columns]

    def columns(self, text: str) -> Iterator[str]:
        """Return the columns of the tables that an entry names so far."""
        for relation in dict.fromkeys(RELATION.findall(text)):
            try:
                yield from self.session.engine.columns(relation)
            except XpsqlError:
                continue  # a table still being typed, or one that does not exist: it has no columns to offer

    def all_columns(self) -> Iterator[str]:
        """Return the columns of tables where an entry names none yet."""
        for relation in self.session.engine.relations()[:MOST_TABLES]:
            yield from self.session.engine.columns(relation)


def words_of(typed: Sequence[str]) -> list[str]:
    """Return the words of our statement that an entry, in capitals, begins with; those of clauses elsewhere."""
    ours = [name for name in STATEMENTS.names if name.split() == list(typed[: len(name.split())])]
    statement = STATEMENTS.find(max(ours, key=len)) if ours else None
    return UPPER.findall(statement.grammar) if statement else [*CLAUSES.names]


def of_training(before: str) -> list[str] | None:
    """Return what may come next in the clauses of a training: algorithms after USING, operators, options of either, settings
    of WITH, and the values that one of these has; None elsewhere."""
    try:
        tokens = tokens_of(WORD.sub("", before))
    except StatementError:
        return None  # a string is being typed
    last = tokens[-1].text.upper() if tokens else ""
    if last in ("USING", "ALGORITHM"):
        return part_names(parts.ALGORITHM)
    if last == "OPERATOR":
        return part_names(parts.OPERATOR)
    around = opened(tokens)
    if not around:
        return None
    owner, place = tokens[around[-1]].text, around[-1]
    if last in ("(", ",") and owner.upper() == "OPERATORS":
        return part_names(parts.OPERATOR)
    if owner.upper() == "WITH":
        found = describe(Settings)
    elif place and tokens[place - 1].text.upper() == "USING":
        found = options_of(parts.ALGORITHM, owner)
    elif len(around) > 1 and tokens[around[-2]].text.upper() == "OPERATORS":
        found = options_of(parts.OPERATOR, owner)
    else:
        return None
    if last in ("(", ","):
        return [option.name.partition(" ")[0] for option in found]
    named = tokens[-2].text.lower() if last == "=" else ""
    return next((values_of(option) for option in found if option.name == named), [] if last == "=" else None)


def values_of(option: Described) -> list[str]:
    """Return the values of an option that has few."""
    if option.type.startswith("bool"):
        return ["true", "false"]
    return [f"'{value}'" for value in option.range.split(" | ")] if " | " in option.range else []


def opened(tokens: Sequence[Token]) -> list[int]:
    """Return the numbers of the tokens before the parentheses that are open at the end, the outermost first."""
    around: list[int] = []
    for number, token in enumerate(tokens):
        if level(token) > 0:
            around.append(max(number - 1, 0))
        elif level(token) < 0 and around:
            around.pop()
    return around


def part_names(kind: parts.PartKind) -> list[str]:
    return [*kind.built_in().names, *(point.name for point in kind.plugged())]


def options_of(kind: parts.PartKind, name: str) -> list[Described]:
    """Return the options of a part; none where there is no such part."""
    try:
        part = kind.find(name, None)
    except StatementError:
        return []
    return describe(part.options)
