"""Errors of the system and of libraries, in our words."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from .errors import NotAvailableError, Position, StatementError, XpsqlError, brief

LIBRARIES = ("duckdb", "_duckdb", "pyarrow", "onnxruntime", "jax", "jaxlib", "py4j", "pyspark")
REMOVED = "The folder that this process runs in was removed. Change to one that is there (cd), then run the statement again."


def of_system(error: OSError, position: Position | None = None) -> StatementError:
    """Return an error of the system about a file as one that names it and says what to do."""
    if not has_folder():
        return StatementError(REMOVED, position)
    named = f" {brief(str(error.filename))}" if error.filename else " a file of the warehouse or of a table"
    remedy = "Choose a shorter name" if error.errno == errno.ENAMETOOLONG else "Check the disk, then run the statement again"
    return StatementError(f"Cannot read or write{named}: {error.strerror or error}. {remedy}.", position)


def has_folder() -> bool:
    """Return whether the folder that the process runs in is there."""
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def of_library(error: Exception) -> XpsqlError | None:
    """Return an error that a library raised and nobody expected as ours; None for what is no library's."""
    library = type(error).__module__.partition(".")[0]
    if library not in LIBRARIES:
        return None
    said = f"{library.removeprefix('_')} failed: {type(error).__name__}: {brief(str(error).partition(chr(10))[0])}"
    return XpsqlError(f"{said}. This is a defect of xpsql: report the statement with the traceback that --debug shows.")


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors of the system about files into ours.

    Raises:
        StatementError: there was one.
    """
    try:
        yield
    except ConnectionError:  # of whoever reads the output
        raise
    except OSError as error:
        raise of_system(error) from error


def needing(need: str, extra: str) -> str:
    """Return a message that ends in the command which installs an extra.

    Example:
        >>> needing("read_kafka needs the package confluent-kafka", "kafka")
        "read_kafka needs the package confluent-kafka: pip install 'xpsql[kafka]'."
    """
    return f"{need}: pip install 'xpsql[{extra}]'."


def of_package(error: ModuleNotFoundError, subject: str) -> NotAvailableError | None:
    """Return that a package which xpsql requires is not installed, as where requirements-serve.txt says what is; None for other
    modules."""
    from importlib.metadata import requires

    name = (error.name or "").partition(".")[0]
    required = {requirement for requirement in requires("xpsql") or () if "extra ==" not in requirement}
    if name.replace("_", "-") not in {re.split(r"[^\w-]", requirement)[0] for requirement in required}:
        return None
    return NotAvailableError(f"{subject} needs the package {name}. Install all that xpsql requires: pip install xpsql.")


@contextmanager
def loading(subject: str) -> Iterator[None]:
    """Let it name a subject that a package is not installed which loading it takes.

    Raises:
        NotAvailableError: one is not.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise of_package(error, subject) or error from error


def require_native(name: str, package: str) -> None:
    """Import a native module.

    Raises:
        ModuleNotFoundError: it is not there, as in a checkout, whose folder comes before what is installed elsewhere.
    """
    try:
        import_module(f".{name}", package)
    except ModuleNotFoundError as error:
        folder = Path(__file__).resolve().parents[1]
        message = (
            f"xpsql is imported from its sources in {folder}, which have no compiled modules: run Python in another folder "
            "to use the xpsql that is installed, or compile these by `pip install --editable .` there."
        )
        raise ModuleNotFoundError(message, name=error.name) from None
