"""Errors about unknown names, the same on every engine."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import Position, StatementError, suggestion

READS = re.compile(r"(?:read_(?P<kind>parquet|csv|json).*|read_files|parquet_scan)")


def no_function(name: str, hint: str, position: Position | None) -> StatementError:
    """Return the error for an unknown function; a function by which other systems read files gets its own hint.

    Args:
        hint: follows the message.
    """
    if (reads := READS.fullmatch(name.lower())) is not None:
        kind = reads["kind"] or "parquet"
        hint = f" Read files as a table: {kind}.`path`, or CREATE TEMPORARY VIEW v USING {kind} OPTIONS (path 'path')."
    return StatementError(f"There is no function {name}.{hint}", position)


def absent(what: str, name: str, known: Iterable[str], position: Position | None) -> StatementError:
    """Return the error for an unknown name."""
    names = list(known)
    return StatementError(f"There is no {what} {name}.{suggestion(name, names) if names else ''}", position)


def gone(path: str) -> str:
    """Return the message for a file that existed when a statement began."""
    return f"{path} is gone: it was deleted, or its table or model replaced or dropped, while the statement ran. Run it again."


def valueless(name: str) -> str:
    """Return what to do about a parameter `:name` of a statement that was given none."""
    return f"The parameter :{name} has no value. Give it in a dict, as in session.sql(statement, {{'{name}': 1}})."
