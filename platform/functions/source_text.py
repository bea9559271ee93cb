"""Source text that a statement names: read once from a file, and run as a module of its own."""

from __future__ import annotations

import functools
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import NamedTuple

from ..errors import OptionError, Position, StatementError, Subject, XpsqlError
from ..system import needing
from ..trust import digest

EXTRAS = frozenset(("torch", "flax", "equinox"))
"""Extras that networks are written with, each named as its package."""


class SourceText(NamedTuple):
    """A text, the file that it came from, which messages name, and what it is to a statement: "network", "function"."""

    text: str
    file: str
    kind: str
    subject: Subject


def of_file(file: str, kind: str, position: Position | None, subject: Subject) -> SourceText:
    """Read a file.

    Raises:
        OptionError: it cannot be read.
    """
    try:
        return SourceText(Path(file).read_text(encoding="utf-8"), file, kind, subject)
    except (OSError, ValueError) as error:  # a path with NUL, or no UTF-8
        why = getattr(error, "strerror", None) or error
        raise OptionError(f"{subject} cannot be read: {why}. Give the path of a file of Python.", position, subject) from error


@functools.lru_cache(maxsize=32)
def load(source: SourceText) -> ModuleType:
    """Run a text as a module of its own.

    Raises:
        StatementError: it fails; names the line.
    """
    name = f"xpsql_{source.kind}_{digest(source.text)[:16]}"
    module = ModuleType(name)
    module.__file__ = source.file
    lines = source.text.splitlines(keepends=True)
    linecache.cache[source.file] = (len(source.text), None, lines, source.file)  # tracebacks show the text that runs
    sys.modules[name] = module  # where classes of the text look for their module
    try:
        with blaming_line(source):
            exec(compile(source.text, source.file, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def blaming_line(source: SourceText) -> Iterator[None]:
    """Turn what a user's text raises into an error at the text's line."""
    try:
        yield
    except XpsqlError:
        raise
    except ModuleNotFoundError as error:
        extra = (error.name or "").partition(".")[0]
        if extra not in EXTRAS:
            raise failing(error, source) from error
        what = f"The {source.kind} of {source.file} needs the package {extra}"
        raise StatementError(needing(what, extra), subject=source.subject) from error
    except Exception as error:
        raise failing(error, source) from error


def failing(error: Exception, source: SourceText) -> StatementError:
    """Return what a user's text raised as an error at the text's line."""
    line = line_of(error, source)
    where = f"{source.file}, line {line}" if line is not None else source.file
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return StatementError(f"The {source.kind} fails at {where}: {type(error).__name__}: {message}", subject=source.subject)


def line_of(error: Exception, source: SourceText) -> int | None:
    """Return the innermost line of the text that an error passed."""
    if isinstance(error, SyntaxError) and error.filename == source.file:
        return error.lineno
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == source.file]
    return lines[-1] if lines else None
