"""What the shell completes: leading words of statements, keywords, functions, and names of models, tables and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from ..errors import XpsqlError
from ..session import Session
from ..sql.clauses import CLAUSES
from ..sql.functions import FUNCTIONS
from ..sql.statements import STATEMENTS

WORD = re.compile(r"[\w.]+$")
AFTER_RELATION = re.compile(r"\b(?:FROM|JOIN|TABLE|INTO|DESCRIBE)\s+[\w.]*$", re.IGNORECASE)
AFTER_MODEL = re.compile(r"\bMODEL\s+\w*$", re.IGNORECASE)
RELATION = re.compile(r"\b(?:FROM|JOIN|TABLE)\s+`?([\w.]+)`?", re.IGNORECASE)
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
        functions = [f"ML.{function.name}" for function in FUNCTIONS]
        if AFTER_RELATION.search(before):
            return [*self.session.engine.relations(), *functions]
        if ";" not in before and not before.strip().count(" "):
            return [*(statement.name for statement in STATEMENTS), *KEYWORDS]
        return [*KEYWORDS, *CLAUSES, *functions, *self.columns(whole)]

    def columns(self, text: str) -> Iterator[str]:
        """Return the columns of the tables that an entry names so far."""
        for relation in dict.fromkeys(RELATION.findall(text)):
            try:
                yield from self.session.engine.columns(relation)
            except XpsqlError:
                continue  # a table still being typed, or one that does not exist: it has no columns to offer
