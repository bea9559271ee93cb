"""The journal (write-ahead log) of a supervised run: a line at the start and end of each statement, in a file that outlives the
process.

The process that takes over skips finished statements and begins with the one that was running. A training resumes from its last
checkpoint, or its version is in the warehouse already. Temporary views and settings are made again. A statement that may have
done its work already, such as INSERT, is not run a second time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import StatementError, XpsqlError, brief
from ..result import Result
from ..session import Session, run_step
from ..sql.base import Command
from ..sql.script import Step

VARIABLE = "XPSQL_JOURNAL"
OF_SESSION = re.compile(r"(SET|RESET|USE|CACHE|UNCACHE|ADD|DECLARE)\b|CREATE (OR REPLACE )?(GLOBAL )?TEMP(ORARY)?\b")
READING = frozenset(("SELECT", "VALUES", "FROM", "TABLE", "SHOW", "DESC", "DESCRIBE", "EXPLAIN", "REFRESH", "ANALYZE", "CHECK"))
REPLACED = re.compile(r"(?:INSERT OVERWRITE(?: TABLE)?|CREATE OR REPLACE(?: TEMP| TEMPORARY)? (?:TABLE|VIEW)) ([^\s(]+)")


class UnderWay(NamedTuple):
    """A statement that was under way.

    Attributes:
        number: its place in the script, from 0.
        line: of the script.
        text: its first line.
        committed: the versions that its model had, where it is a training.
    """

    number: int
    line: int
    text: str
    committed: list[int]


class Journal:
    """The journal of a run, read and written by the process that runs it; its supervisor only reads it.

    Args:
        path: of the file, which the first process makes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        self._lines: list[dict[str, Any]] = [json.loads(line) for line in lines if line.endswith("\n")]  # the last may be torn
        self._ended = {line["ended"] for line in self._lines if "ended" in line}

    @classmethod
    def inherited(cls) -> Journal | None:
        """Return the journal that a supervisor has given to this process; None without one. Processes it starts have none."""
        path = os.environ.pop(VARIABLE, None)
        return None if path is None else cls(Path(path))

    @property
    def goes_on(self) -> bool:
        """Whether an earlier process kept the journal, and died."""
        return bool(self._lines)

    @property
    def under_way(self) -> UnderWay | None:
        """The statement that had begun and not ended."""
        for line in reversed(self._lines):
            if "begun" in line and line["begun"] not in self._ended:
                return UnderWay(line["begun"], line["line"], line["text"], line["committed"])
        return None

    def run(self, session: Session, steps: tuple[Step, ...], text: str) -> Iterator[Result]:
        """Run what is left of a script, giving the result of each statement before the next one starts.

        Args:
            text: of the script; the same in all processes of a run.

        Raises:
            XpsqlError: the script was changed meanwhile; or the statement under way cannot be run again.
        """
        self._drop_torn_line()
        self._check_same(text)
        under_way = self.under_way
        for number, step in enumerate(steps):
            if number in self._ended:
                if OF_SESSION.match(written(step).upper()):
                    run_step(session, step)
                continue
            if under_way is not None and under_way.number == number:
                if self._made(session, step.command, under_way.committed):
                    self._write({"ended": number})
                    continue
                check_repeatable(step)
            model = trained(step.command)
            committed = [] if model is None else committed_versions(session, model)
            line, _, shown = step.position
            self._write({"begun": number, "line": line, "text": brief(shown), "committed": committed})
            yield run_step(session, step)
            self._write({"ended": number})

    def _check_same(self, text: str) -> None:
        digest = hashlib.sha256(text.encode()).hexdigest()
        if not self._lines:
            self._write({"script": digest})
        elif self._lines[0]["script"] != digest:
            raise XpsqlError("The script was changed while it ran, so what is left of it is unknown. Run what is left by hand.")

    def _made(self, session: Session, command: Command, committed: list[int]) -> bool:
        """Return whether a training had made its version before its process died."""
        model, statement = trained(command), statement_of(command)
        if model is None:
            return False
        return any(
            version.number not in committed and (statement is None or version.manifest.statement == statement)
            for version in session.models.present(model)
            if version.manifest.status in ("ready", "held")
        )

    def _write(self, line: dict[str, Any]) -> None:
        self._lines.append(line)
        if "ended" in line:
            self._ended.add(line["ended"])
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _drop_torn_line(self) -> None:
        self.path.write_text("".join(json.dumps(line) + "\n" for line in self._lines), encoding="utf-8")


def written(step: Step) -> str:
    """Return the text of a statement, of one of ours its first line, with one space between two words."""
    from ..sql.query import Query

    return " ".join((step.command.passage.text if isinstance(step.command, Query) else step.position.text).split())


def check_repeatable(step: Step) -> None:
    """Refuse to run a statement twice that may have done its work."""
    text = written(step)
    if trained(step.command) is None and not OF_SESSION.match(text.upper()) and not repeatable(text):
        raise StatementError(
            "The process died during this statement, and it is not known whether its work was done. Check that, then "
            "run the rest of the script.",
            step.position,
        )


def repeatable(text: str) -> bool:
    """Return whether a statement is idempotent; False where its words do not show it.

    Args:
        text: with one space between two words.
    """
    upper = text.upper()
    first, _, rest = upper.partition(" ")
    if upper.startswith("(") or first in READING:
        return True
    if first == "WITH":
        return re.search(r"\bINSERT\b", upper) is None
    if first == "EXPORT":
        return re.search(r"\bREPLACE\b", upper) is not None
    if first == "DELETE":  # a condition that reads a table may find another one
        return re.search(r"\bSELECT\b", upper) is None
    if upper.startswith("ALTER TABLE "):
        return re.match(r"ALTER TABLE [^ ]+ DROP IF EXISTS PARTITION\b", upper) is not None
    replaced = REPLACED.match(upper)
    if replaced is not None:  # what it is made of may be what a first run has replaced
        return len(re.findall(rf"\b{re.escape(replaced[1].strip('`'))}\b", upper)) == 1
    if first in ("CREATE", "DROP"):
        return re.match(r"([A-Z]+ ){1,3}IF (NOT )?EXISTS\b", rest) is not None
    return upper.startswith("ALTER MODEL ")


def trained(command: Command) -> str | None:
    """Return the model that a statement trains; None where it trains none."""
    from ..sql.statements.continue_model import Continue
    from ..sql.statements.resume import Resume
    from ..sql.statements.train import Train

    if isinstance(command, Train):
        return command.plan.model
    return command.model if isinstance(command, Continue | Resume) else None


def statement_of(command: Command) -> str | None:
    """Return the text of a training; None for RESUME, which goes on with another one's."""
    from ..sql.statements.continue_model import Continue
    from ..sql.statements.train import Train

    if isinstance(command, Train):
        return command.plan.statement
    return command.statement if isinstance(command, Continue) else None


def committed_versions(session: Session, model: str) -> list[int]:
    return [version.number for version in session.models.present(model) if version.manifest.status in ("ready", "held")]
