"""Failures of Spark as StatementErrors: our words, the place in the text that was given, no stack traces of the JVM."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ....warehouse.tables import MANIFEST
from ...errors import ModelError, Position, StatementError
from ..spark_sql import row_makers
from ..spark_sql.bad_values import bad_value
from ..spark_sql.lexer import find_word
from ..spark_sql.words import EXPLODES
from ..unknown_names import absent, gone, no_function, valueless
from .calls import RewrittenStatement
from .missing_packages import format_of, missing, no_format

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
PLACE = re.compile(r"\bline (?P<line>\d+),? pos (?P<column>\d+)\b")
CONDITION = re.compile(r"\[(?P<condition>[A-Z][A-Z0-9_.]+)\] ")
PLACE_AND_PLAN = re.compile(r"; line \d+ pos \d+\b.*", re.DOTALL)  # Spark 3
SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}\b.*", re.DOTALL)
CAUSE = re.compile(r"^\s*Caused by: [\w.$]+: (?P<message>(?!\S+\.DefaultSource$).+)$", re.MULTILINE)  # no class sought
READING = re.compile(r"\bfile (?P<path>[a-z0-9]+:/.+?)\.\s")  # of the exception around the cause
CAUSES = "_cause", "_stacktrace", "cause"
"""Attributes of an error that tell its causes: in a session of this process, in one of Spark Connect, in Spark 3."""
NUMBER = re.compile(r"(?<=\d)(?:BD|[LSYDF])$")  # what Spark writes after one
UNCAST = re.compile(  # Spark 3 has no parameters of what fails in tasks
    r'\[CAST_(?:INVALID_INPUT|OVERFLOW)\] The value (?P<value>.*?) of the type "[^"]+" cannot be cast to "(?P<kind>[^"]+)"',
    re.DOTALL,
)
JAVA_CLASS = re.compile(r"^(?:An error occurred while calling \S+\s*: )?(?:[\w.$]+(?:Exception|Error): )+")
STACK = re.compile(r"\n\n|\n\tat |\nDriver stacktrace:")
TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
PYTHONS = re.compile(r"different version:? \(?(?P<worker>\d+\D+\d+)\)? than that in driver:? \(?(?P<driver>\d+\D+\d+)")
OUR_ERRORS = "xpsql.platform.errors."
UNWRITTEN = re.compile(rf"^{re.escape(OUR_ERRORS)}ModelError: (?P<message>.+)", re.MULTILINE)
GONE = re.compile(r"^File (?:file:)?(?P<path>/.*) does not exist$")
NO_MODULE = re.compile(r"No module named '(?P<module>[\w.]+)'")
LOST = re.compile(
    r"Connection reset|Broken pipe|Python worker exited unexpectedly|ExecutorLostFailure|[Ll]ost executor|"
    r"[Hh]eartbeat timed out|FetchFailed"
)
ONLY_OURS = (
    "What a warehouse has changes by CREATE [OR REPLACE], INSERT INTO | OVERWRITE name [BY NAME | (columns)] query, DELETE "
    "FROM, ALTER TABLE ... DROP PARTITION and DROP, in the database default."
)
SENT = (
    "Set PYSPARK_PYTHON, before Spark starts, to a Python that has it on every machine, or start with `xpsql submit`, which "
    "sends what executors need."
)


@contextmanager
def explained(statement: RewrittenStatement, relations: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Turn failures of Spark inside the block into StatementErrors about what the user wrote.

    Args:
        statement: what runs; an empty one where the failure is of no text.
        relations: returns the names of all tables and views.

    Raises:
        ModelError: a task could not write, which is no fault of the statement.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        with unlogged():
            yield
    except PySparkException as error:
        if unwritten := UNWRITTEN.search(str(error)):
            raise ModelError(unwritten["message"].strip()) from error
        raise explain(error, statement, relations) from error
    except Py4JJavaError as error:
        said = str(error)
        if found := UNCAST.search(said):
            raise StatementError(uncast(found["value"], found["kind"])) from error
        raise StatementError(missing(said) or f"The query failed: {plain(root_cause(said))}") from error


@contextmanager
def unlogged() -> Iterator[None]:
    """Keep PySpark from logging the errors that this thread raises inside the block: we report them once."""
    try:
        from pyspark.logger import PySparkLogger  # a logger of another class by one of these names breaks what PySpark logs
    except ImportError:  # Spark 3 logs none
        yield
        return
    thread = threading.get_ident()

    def by_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    loggers = [PySparkLogger.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(by_others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(by_others)


def explain(error: PySparkException, statement: RewrittenStatement, relations: Callable[[], Iterable[str]]) -> StatementError:
    """Return a failure of Spark in our words."""
    args = {name: bare(value) for name, value in (error.getMessageParameters() or {}).items()}
    position = position_of(error, statement)
    cause = next((str(told) for name in CAUSES if (told := getattr(error, name, None))), "")
    both = f"{error}\n{cause}"
    match condition_of(error).split("."):
        case ["UNRESOLVED_COLUMN", *_]:
            near = [bare(name) for name in args.get("proposal", "").split(", ") if name]
            return absent("column", args["objectName"], near, position)
        case ["TABLE_OR_VIEW_NOT_FOUND", *_] if lacked := format_of(bare(args["relationName"])):
            return StatementError(no_format(lacked), position)
        case ["TABLE_OR_VIEW_NOT_FOUND", *_]:
            return absent("table or view", args["relationName"], relations(), position)
        case ["CAST_INVALID_INPUT" | "CAST_OVERFLOW"]:
            given = str((error.getMessageParameters() or {}).get("expression") or args["value"])
            return StatementError(uncast(given, args["targetType"]), position)
        case ["UNSUPPORTED_GENERATOR" | "UDTF_ALIAS_NUMBER_MISMATCH" | "WRONG_NUM_ARGS" | "DATATYPE_MISMATCH" as what, *why]:
            if found := misused(what, why, args, statement):
                return StatementError(found[0], position or find_word(statement.written, found[1]))
        case ["RECURSIVE_VIEW"]:
            return StatementError(f"The view {args['viewIdent']} would read itself.", position)
        case ["INVALID_TEMP_OBJ_REFERENCE"]:
            temporary = f"{args['obj'].lower()} {args['objName']} would outlive the temporary {args['tempObj'].lower()}"
            return StatementError(f"The {temporary} {args['tempObjName']}. Use CREATE TEMPORARY VIEW.", position)
        case ["TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"]:
            message = f"The view {args['relationName']} exists. Drop it, use OR REPLACE, or choose another name."
            return StatementError(message, position or find_word(statement.written, args["relationName"]))
        case ["MISSING_AGGREGATION"]:
            message = f"Column {args['expression']} is neither grouped nor aggregated; add it to GROUP BY, or aggregate it."
            return StatementError(message, position or find_word(statement.written, args["expression"].rpartition(".")[2]))
        case ["UNBOUND_SQL_PARAMETER"]:
            return StatementError(valueless(args["name"]), position or find_word(statement.written, args["name"]))
        case ["UNRESOLVED_ROUTINE"]:
            return no_function(bare(args["routineName"]), "", position)
        case ["UNRESOLVABLE_TABLE_VALUED_FUNCTION"]:
            return no_function(bare(args["name"]), "", position)
        case ["PATH_NOT_FOUND"] if MANIFEST in args["path"]:
            return StatementError(gone("A table of the statement"), position)
        case ["PATH_NOT_FOUND"]:
            return StatementError(f"The path {args['path']} does not exist. Check its spelling.", position)
        case ["FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY" | "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"] if lacked := missing(cause):
            return StatementError(lacked, position)
        case ["FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY"]:
            kind = args["dataSourceType"]
            message = f"The files of {kind}.`...` cannot be read: they are not {kind}, or executors do not see them there."
            return StatementError(message, position)
        case ["FAILED_READ_FILE", *_] if cause:
            return StatementError(f"The query failed: {plain(root_cause(both))}", position)
        # Spark 3 has no name for it, and gives no paths.
        case ["UNSUPPORTED_INSERT", "MULTI_PATH"] | ["_LEGACY_ERROR_TEMP_1148"] if MANIFEST in args.get("paths", MANIFEST):
            return StatementError(f"Spark itself writes into no table of a warehouse. {ONLY_OURS}", position)
    return StatementError(missing(both) or f"The query failed: {plain(str(error))}", position)


def uncast(given: str, kind: str) -> str:
    """Return the message about a value, as Spark writes it, that cannot be cast to a type."""
    return bad_value(given[1:-1] if given.startswith("'") else NUMBER.sub("", given), kind)


def misused(what: str, why: list[str], args: dict[str, str], statement: RewrittenStatement) -> tuple[str, str] | None:
    """Return what is to be said of a function that makes rows, and its name; None where the failure is of another one."""
    given = next((args[key] for key in ("expression", "plan", "sqlExpr", "generators") if key in args), statement.written)
    name = args["functionName"] if what == "WRONG_NUM_ARGS" else row_makers.named_in(given)
    if name is None or name not in EXPLODES:
        return None
    if what == "UDTF_ALIAS_NUMBER_MISMATCH":
        return row_makers.other_names(name, args["aliasesSize"], "", len(args["aliasesNames"].split(","))), name
    if what == "WRONG_NUM_ARGS":
        return row_makers.not_one_array(name, args["actualNum"]), name
    if what == "DATATYPE_MISMATCH":
        return row_makers.no_array(name, args.get("inputSql", ""), args.get("inputType", "").lower()), name
    return row_makers.second(name, "another") if why[:1] == ["MULTI_GENERATOR"] else row_makers.not_alone(name), name


def condition_of(error: PySparkException) -> str:
    """Return the name of what went wrong, "TABLE_OR_VIEW_NOT_FOUND"; empty where it has none."""
    condition = error.getCondition() if hasattr(error, "getCondition") else error.getErrorClass()  # Spark 3
    return condition or ""


def position_of(error: PySparkException, statement: RewrittenStatement) -> Position | None:
    """Return where in what the user wrote an error is; None where Spark does not say, or means the text of a view."""
    if found := PLACE.search(str(error)):
        lines = statement.text.splitlines(keepends=True)
        start = sum(map(len, lines[: int(found["line"]) - 1])) + int(found["column"])
        word = statement.text[start:].split(maxsplit=1)
        return statement.position(start, start + len(named(word[0]))) if word else None
    if not hasattr(error, "getQueryContext"):  # Spark 3
        return None
    from pyspark.errors import QueryContextType

    contexts = [c for c in error.getQueryContext() or [] if c.contextType() == QueryContextType.SQL]
    if not contexts or contexts[0].objectType() or contexts[0].startIndex() < 0:
        return None
    return statement.position(contexts[0].startIndex(), contexts[0].stopIndex() + 1)


def named(word: str) -> str:
    """Return a word of a statement without the comma or the bracket that ends what it stands in."""
    while word.endswith((",", ";")) or (word.endswith(")") and word.count(")") > word.count("(")):
        word = word[:-1]
    return word


def bare(name: str) -> str:
    """Return a name without its backticks and quotes: "`t`.`a`" is t.a."""
    return ".".join(part.strip('`"') for part in name.split(".")).removeprefix("spark_catalog.").removeprefix("default.")


def plain(message: str) -> str:
    """Return what a message says, without the condition's name, SQLSTATE, the query again and stack traces."""
    if found := PYTHONS.search(message):
        worker, driver = (re.sub(r"\D+", ".", found[which]) for which in ("worker", "driver"))
        return (
            f"The executors run Python {worker}, the driver {driver}; both need the same minor version. "
            "Set PYSPARK_PYTHON to such a Python on every machine."
        )
    if TRACEBACK in message:
        return raised_in_python(message)
    text = CONDITION.sub("", PLACE_AND_PLAN.sub("", SQLSTATE.sub("", message.strip())), count=1)
    text = JAVA_CLASS.sub("", STACK.split(text, maxsplit=1)[0])
    text = " ".join(text.split())
    if found := GONE.search(text):
        return gone(found["path"])
    return text if text.endswith((".", "!", "?")) else f"{text}."


def raised_in_python(message: str) -> str:
    """Return the error that a Python function of the query raised, from Spark's traceback."""
    lines = message.rpartition(TRACEBACK)[2].split("\n")
    raised = next((found for line in lines if (found := RAISED.match(line.strip("\r"))) and line[:1].strip()), None)
    if raised is None:
        return f"a Python function failed: {' '.join(lines[-1].split())}."
    if raised["kind"].startswith(OUR_ERRORS):
        return str(raised["message"])
    reason = f"{raised['kind']}: {raised['message']}" if raised["message"] else raised["kind"]
    if module := NO_MODULE.search(reason):
        return f"the executors have no Python module {module['module']}. {SENT}"
    return f"a Python function raised {reason}"


def is_loss(message: str) -> bool:
    """Return whether a task failed with its process, its machine or a connection, and not by what its code found wrong."""
    if TRACEBACK in message:
        return f"\n{OUR_ERRORS}LostError: " in message.rpartition(TRACEBACK)[2]
    return LOST.search(message) is not None


def root_cause(message: str) -> str:
    """Return the innermost cause that a Java exception's text names, and the file that was read."""
    if TRACEBACK in message:
        return message
    causes = CAUSE.findall(message)
    if not causes:
        return message
    cause: str = causes[-1]
    reading = READING.search(message)
    return cause if reading is None or Path(reading["path"]).name in cause else f"{reading['path']}: {cause}"
