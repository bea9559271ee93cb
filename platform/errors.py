"""The errors of xpsql.

    XpsqlError
    ├── StatementError          a statement that cannot run; carries line, column and the offending text
    │   ├── OptionError         an unknown option, or a value out of its range
    │   └── NotAvailableError   a statement that this version parses but does not run
    ├── ModelError              a model or version that is absent, busy or damaged
    │   └── NewerFormatError    one that a newer xpsql wrote, in a format that this one does not read
    ├── CheckpointError         a checkpoint that is damaged or missing; one before it may be good
    ├── DataError               training or prediction data that cannot be used; names the column or row
    │   └── NoTextError         a text whose bytes are no UTF-8
    └── TrainingError           a training that stopped after it started
        ├── LostError           a process or connection that it needs is gone; a training recovers from it
        └── CancelledError      somebody cancelled its tasks, on the pages of the engine or by its API
            └── EngineEndedError    the application of the engine has ended, and with it all that it ran

Every message says what was expected, what came, and what to do.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple, Self

from .quoting import masked

BRIEF = 200
NO_MEMORY = (
    "There is no memory left for the statement. Free some, raise the limit of the process (ulimit -v, its container), or read "
    "and write less at once."
)
NO_ROOM = re.compile("can't start new thread|failed to map segment|cannot allocate memory|RESOURCE_EXHAUSTED|OutOfMemory", re.I)


class Position(NamedTuple):
    """Where a piece of a statement stands: 1-based line and column, and the text itself."""

    line: int
    column: int
    text: str


class Subject(NamedTuple):
    """What of a statement an error is about; as text, how a message begins.

    Attributes:
        clause: its keyword; "USING" for an algorithm, "OPERATORS" for an operator, "FOLD" for a fold, "APPLY" for an update,
            "ENGINE" for an engine, "STREAM" for what reads a stream.
        part: its name.
        option: of the part, or of the clause.

    Example:
        >>> str(Subject("LABEL")), str(Subject("WITH", option="sync")), str(Subject("OPERATORS", "ftrl", "alpha"))
        ('LABEL', 'WITH sync', 'Option alpha of operator ftrl')
    """

    clause: str
    part: str | None = None
    option: str | None = None

    @classmethod
    def of_part(cls, kind: str, name: str) -> Subject:
        """Return the subject that a part is; `kind` is one of KINDS."""
        return cls(next(clause for clause, named in KINDS.items() if named == kind), name)

    def __str__(self) -> str:
        if self.part is None:
            return self.clause if self.option is None else f"{self.clause} {self.option}"
        kind = KINDS[self.clause]
        return f"{kind.capitalize()} {self.part}" if self.option is None else f"Option {self.option} of {kind} {self.part}"


KINDS = {
    "USING": "algorithm",
    "OPERATORS": "operator",
    "FOLD": "fold",
    "APPLY": "update",
    "READING": "reading",
    "ENGINE": "engine",
    "STREAM": "stream",
}
"""What the parts of a clause are."""


class XpsqlError(Exception):
    """Base of all errors that xpsql raises on purpose.

    Attributes:
        script: the statements that ran, where a session knows them.
        position: where in the script, if known.
    """

    script = ""
    position: Position | None = None

    @property
    def told(self) -> str:
        """The message without the position."""
        return str(self)

    def described(self, script: str, file: str = "") -> list[str]:
        """Return the lines that people read: the message, notes, and the line of a script with carets under what is wrong.

        Args:
            script: what ran, or an empty string.
            file: its name, or an empty string.
        """
        if self.position is None:
            where, lines = file, []
        else:
            from .excerpts import excerpt

            line, column, text = self.position
            where = ", ".join(filter(None, (file, f"line {line}, column {column}")))
            lines = excerpt(script, line, column, text)
        return [f"Error{f' ({where})' if where else ''}: {self.told}", *getattr(self, "__notes__", []), *lines]

    def _render_traceback_(self) -> list[str]:
        """Return what IPython and Jupyter show in place of a traceback, which would be of xpsql's own code."""
        from .excerpts import caller

        return [*self.described(self.script), *caller(self.__traceback__)]


class StatementError(XpsqlError):
    """A statement that cannot run.

    Attributes:
        message: what was expected, what came, what to do; without the position.
        subject: what of the statement it is about, if known; its place becomes the position where there is none.
    """

    def __init__(self, message: str, position: Position | None = None, subject: Subject | None = None) -> None:
        self.message = message
        self.position = position
        self.subject = subject
        where = f" (line {position.line}, column {position.column}, at {brief(position.text)!r})" if position else ""
        super().__init__(message + where)

    @property
    def told(self) -> str:
        return self.message

    def at(self, position: Position | None) -> Self:
        """Return this error with another position."""
        return type(self)(self.message, position, self.subject)


class OptionError(StatementError):
    """An option that does not exist, or a value that it does not take."""


class NotAvailableError(StatementError):
    """A statement or clause of the language that this version does not run yet."""


class ModelError(XpsqlError):
    """A model or version that is absent, busy, damaged, or written by a newer xpsql.

    Attributes:
        model: the name of the model, where it is one that a statement can name; its place there becomes the position.
    """

    def __init__(self, message: str, model: str | None = None) -> None:
        self.model = model
        super().__init__(message)


class NewerFormatError(ModelError):
    """A file that a newer xpsql wrote, in a format that this one does not read."""


class CheckpointError(XpsqlError):
    """A checkpoint that is damaged or missing, or one that could not be written; one before it may be good."""


class DataError(XpsqlError):
    """Data that cannot be learned from or scored; the message names the column, file or row."""


class NoTextError(DataError):
    """A text whose bytes are no UTF-8."""


class TrainingError(XpsqlError):
    """A training that failed after it had started."""


class NumberError(TrainingError):
    """Numbers that became NaN."""


class LostError(TrainingError):
    """A process, machine or connection that is gone, or does not answer; what it did can be done again elsewhere."""


class CancelledError(TrainingError):
    """Tasks that somebody cancelled on purpose, on the pages of the engine or by its API; they are not started again."""


class EngineEndedError(CancelledError):
    """The application of the engine has ended, and with it all that it ran; a new session may go on."""


def no_number(what: str) -> NumberError:
    """Return the error of numbers that became NaN."""
    return NumberError(
        f"{what}: numbers grew beyond what float32 holds. Look for huge values in continuous columns, vectors, WEIGHT or "
        "gradients that a program pushed, or lower the learning rate."
    )


def brief(text: str) -> str:
    """Return the start of a text, which may be a whole script on one line, as a message can hold it: without secrets."""
    text = masked(text)
    return text if len(text) <= BRIEF else f"{text[:BRIEF]}..."


def suggestion(name: str, valid: Iterable[str]) -> str:
    """Return " Did you mean x?" for the nearest valid name, followed by all valid names."""
    names = sorted(valid)
    near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=1)
    mean = next((n for n in names if near and n.lower() == near[0]), None)
    listed = ", ".join(names) if names else "none"
    return (f" Did you mean {mean}?" if mean else "") + f" Valid: {listed}."


def is_of_memory(error: BaseException) -> bool:
    """Return whether an error of Python or of a library says that memory, or room for addresses, has ended."""
    return not isinstance(error, XpsqlError) and (isinstance(error, MemoryError) or NO_ROOM.search(repr(error)) is not None)
