"""Folds and updates as statements name them: read, checked before anything runs, and placed in messages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from .. import parts
from ..errors import OptionError, Subject
from ..options import Value
from ..quoting import literal, quoted
from ..training.clauses.using import Given, read_function
from .clauses import placing
from .cursor import Cursor


class NamedFunction(NamedTuple):
    """A fold or an update: as it was checked, and as it is written."""

    use: parts.FunctionUse
    given: Given


def read_named(cursor: Cursor, kind: parts.PartKind) -> NamedFunction:
    """Read `name [(option = value, ...)]` or `'file.py:name' [(...)]`.

    Raises:
        StatementError: there is no such function, or it does not take these options.
    """
    given = read_function(cursor, f"{'an' if kind.name[0] in 'aeiou' else 'a'} {kind.name}")
    with locating([given], kind):
        return NamedFunction(kind.used(given.name.value, given.name.position, given.options), given)


@contextmanager
def locating(given: Sequence[Given], kind: parts.PartKind) -> Iterator[None]:
    """Place errors about functions, and their options, where they are written."""
    clause = Subject.of_part(kind.name, "").clause
    with placing({clause: Value(tuple(given), given[0].name.position)}, None):
        yield


def fold_text(model: str, version: int | None, fold: str, options: Mapping[str, object]) -> str:
    """Return the statement of a fold; arguments as of Session.fold."""
    named = quoted(model) if version is None else f"{quoted(model)} VERSION {version}"
    return f"SELECT * FROM ML.FOLD(MODEL {named}, {as_written(parts.FOLD, fold, options)})"


def apply_text(model: str, update: str, where: str | None, options: Mapping[str, object]) -> str:
    """Return the statement of an update; arguments as of Session.apply."""
    condition = "" if where is None else f" WHERE {where}"
    return f"ALTER MODEL {quoted(model)} APPLY {as_written(parts.UPDATE, update, options)}{condition}"


def as_written(kind: parts.PartKind, name: str, options: Mapping[str, object]) -> str:
    """Return a function with options of Python as a statement writes it.

    Raises:
        OptionError: what no statement can write, a value or a function itself.
    """
    if not isinstance(name, str):
        came = type(name).__name__
        raise OptionError(f"Name a function by a text, like 'sum' or 'mine.py:shrink', where it is in a file; got {came}.")
    subject = Subject.of_part(kind.name, name)
    listed = ", ".join(
        f"{quoted(option.removesuffix('_'))} = {value_text(value, subject._replace(option=option))}"
        for option, value in options.items()
    )
    called = quoted(name) if parts.file_of(name) is None else text_of(name)
    return f"{called} ({listed})" if listed else called


def value_text(value: object, subject: Subject) -> str:
    """Return a value as a statement writes it."""
    if hasattr(value, "tolist"):  # of NumPy
        value = value.tolist()
    if isinstance(value, str):
        return text_of(value)
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, list | tuple):
        return f"({', '.join(value_text(one, subject) for one in value)})"
    if isinstance(value, int | float) and math.isfinite(value):
        return repr(value)
    raise OptionError(
        f"{subject} expects a number, a text, True, False, None or a list of these, got {value!r}.", subject=subject
    )


def text_of(text: str) -> str:
    """Return a text as a literal in which no variable is replaced."""
    return literal(text).replace("${", "$${")
