"""The source text of a user's network: read once from a file or a module, carried by the model, and run from there."""

from __future__ import annotations

import functools
import importlib.util
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, NamedTuple

from ...platform.errors import OptionError, Position, StatementError, Subject, XpsqlError, suggestion
from ...platform.system import needing
from ...platform.trust import digest

NETWORK = Subject("USING", "network")
CLASS = NETWORK._replace(option="class")
EXTRAS = frozenset(("torch", "flax", "equinox"))
"""Extras that networks are written with, each named as its package."""


class SourceText(NamedTuple):
    """A text, and the file that it came from, which messages name."""

    text: str
    file: str


def of_file(file: str, position: Position | None) -> SourceText:
    """Read a file.

    Raises:
        OptionError: it cannot be read.
    """
    try:
        return SourceText(Path(file).read_text(encoding="utf-8"), file)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        subject = NETWORK._replace(option="file")
        raise OptionError(f"{subject} cannot be read: {why}. Give the path of a file of Python.", position, subject) from error


def of_module(name: str, position: Position | None) -> SourceText:
    """Read the text of a module that can be imported, without running it.

    Raises:
        OptionError: there is no such module, or it has no text.
    """
    subject = NETWORK._replace(option="module")
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise OptionError(f"{subject} names {name!r}, which cannot be found: {error}.", position, subject) from error
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise OptionError(f"{subject} names {name!r}, which is not a module of Python source. Install it.", position, subject)
    return SourceText(Path(spec.origin).read_text(encoding="utf-8"), spec.origin)


@functools.lru_cache(maxsize=32)
def load(source: SourceText) -> ModuleType:
    """Run a text as a module of its own.

    Raises:
        StatementError: it fails; names the line.
    """
    name = f"xpsql_network_{digest(source.text)[:16]}"
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


def member(source: SourceText, name: str | None, fits: Callable[[type], bool]) -> Any:
    """Return the class of a text; where none is named, the module itself if it has functions, else its only class that fits.

    Raises:
        OptionError: it has no such class; or none is named, and several fit.
    """
    module = load(source)
    own = {key: value for key, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__}
    if name is None:
        fitting = [key for key, value in own.items() if fits(value)]
        if hasattr(module, "apply") or not fitting:
            return module
        if len(fitting) > 1:
            message = f"{source.file} has several networks: {', '.join(fitting)}. Say which one, like class = '{fitting[-1]}'."
            raise OptionError(message, subject=CLASS)
        return own[fitting[0]]
    found = getattr(module, name, None)
    if not isinstance(found, type):
        raise OptionError(f"{source.file} has no class {name!r}.{suggestion(name, own)}", subject=CLASS)
    return found


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
        raise StatementError(
            needing(f"The network of {source.file} needs the package {extra}", extra), subject=NETWORK
        ) from error
    except Exception as error:
        raise failing(error, source) from error


def failing(error: Exception, source: SourceText) -> StatementError:
    """Return what a user's text raised as an error at the text's line."""
    line = line_of(error, source)
    where = f"{source.file}, line {line}" if line is not None else source.file
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return StatementError(f"The network fails at {where}: {type(error).__name__}: {message}", subject=NETWORK)


def line_of(error: Exception, source: SourceText) -> int | None:
    """Return the innermost line of the text that an error passed."""
    if isinstance(error, SyntaxError) and error.filename == source.file:
        return error.lineno
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == source.file]
    return lines[-1] if lines else None
