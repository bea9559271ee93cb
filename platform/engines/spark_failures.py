"""Failures of Spark as StatementErrors: our words, the place in the text that was given, no stack traces of the JVM."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import Position, StatementError
from .failures import absent, find_word, place

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
PLACE = re.compile(r"\(line (?P<line>\d+), pos (?P<column>\d+)\)")
CONDITION = re.compile(r"\[(?P<condition>[A-Z][A-Z0-9_.]+)\] ")
SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}\b.*", re.DOTALL)
CAUSE = re.compile(r"^\s*Caused by: [\w.$]+: (?P<message>.+)$", re.MULTILINE)
JAVA_CLASS = re.compile(r"^(?:An error occurred while calling \S+\s*: )?(?:[\w.$]+(?:Exception|Error): )+")
TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
PYTHONS = re.compile(r"different version: (?P<worker>[\d.]+) than that in driver:? (?P<driver>[\d.]+)")
NO_MODULE = re.compile(r"No module named '(?P<module>[\w.]+)'")
SENT = "Install it there, or start with `xpsql submit`, which sends what executors need."


@contextmanager
def explained(text: str, relations: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Turn failures of Spark inside the block into StatementErrors about `text`.

    Args:
        text: what the user wrote, or nothing where the failure is of no text.
        relations: tells the tables and views that there are.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        with unlogged():
            yield
    except PySparkException as error:
        raise explain(error, text, relations) from error
    except Py4JJavaError as error:
        raise StatementError(f"The query failed: {plain(root_cause(str(error)))}") from error


@contextmanager
def unlogged() -> Iterator[None]:
    """Keep PySpark from logging the errors that are raised inside the block: they are told once, by us."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def explain(error: PySparkException, text: str, relations: Callable[[], Iterable[str]]) -> StatementError:
    """Return a failure of Spark in our words."""
    told = {name: bare(value) for name, value in (error.getMessageParameters() or {}).items()}
    position = position_of(error, text)
    match (error.getCondition() or "").split("."):
        case ["UNRESOLVED_COLUMN", *_]:
            near = [bare(name) for name in told.get("proposal", "").split(", ") if name]
            return absent("column", told["objectName"], near, position)
        case ["TABLE_OR_VIEW_NOT_FOUND", *_]:
            return absent("table or view", told["relationName"], relations(), position)
        case ["MISSING_AGGREGATION"]:
            message = f"Column {told['expression']} is neither grouped nor aggregated; add it to GROUP BY, or aggregate it."
            return StatementError(message, position or find_word(text, told["expression"].rpartition(".")[2]))
        case ["UNRESOLVED_ROUTINE"]:
            return StatementError(f"There is no function {told['routineName']}.", position)
        case ["PATH_NOT_FOUND"]:
            return StatementError(f"The path {told['path']} does not exist. Check its spelling.", position)
    return StatementError(f"The query failed: {plain(str(error))}", position)


def position_of(error: PySparkException, text: str) -> Position | None:
    """Return where in `text` an error is; None where Spark does not tell, or means the text of a view."""
    from pyspark.errors import QueryContextType

    if found := PLACE.search(str(error)):
        line, column = int(found["line"]), int(found["column"]) + 1
        rest = text.split("\n")[line - 1][column - 1 :] if line <= text.count("\n") + 1 else ""
        return Position(line, column, rest.split(" ")[0] or "end of statement")
    contexts = [c for c in error.getQueryContext() or [] if c.contextType() == QueryContextType.SQL]
    if not contexts or contexts[0].objectType() or contexts[0].startIndex() < 0:
        return None
    return place(text, contexts[0].startIndex(), contexts[0].stopIndex() + 1)


def bare(name: str) -> str:
    """Return a name without its backticks and quotes: "`t`.`a`" is t.a."""
    return ".".join(part.strip('`"') for part in name.split(".")).removeprefix("spark_catalog.")


def plain(message: str) -> str:
    """Return what a message says, without the condition's name, SQLSTATE, the query again and stack traces."""
    if found := PYTHONS.search(message):
        return (
            f"The executors run Python {found['worker']}, the driver {found['driver']}; both need the same minor version. "
            "Set PYSPARK_PYTHON to such a Python on every machine."
        )
    if TRACEBACK in message:
        return raised_in_python(message)
    text = CONDITION.sub("", SQLSTATE.sub("", message.strip()), count=1)
    text = JAVA_CLASS.sub("", text.split("\n\tat ")[0].split("\n\n")[0])
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def raised_in_python(message: str) -> str:
    """Return the error that a Python function of the query raised, from the traceback that Spark tells."""
    lines = message.rpartition(TRACEBACK)[2].split("\n")
    raised = next((found for line in lines if (found := RAISED.match(line.strip("\r"))) and line[:1].strip()), None)
    if raised is None:
        return f"a Python function failed: {' '.join(lines[-1].split())}."
    told = f"{raised['kind']}: {raised['message']}" if raised["message"] else raised["kind"]
    if module := NO_MODULE.search(told):
        return f"the executors have no Python module {module['module']}. {SENT}"
    return f"a Python function raised {told}"


def root_cause(message: str) -> str:
    """Return the innermost cause that a Java exception's text names."""
    if TRACEBACK in message:
        return message
    causes = CAUSE.findall(message)
    return causes[-1] if causes else message
