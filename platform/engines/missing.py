"""Errors of names that nothing has, the same on every engine."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import Position, StatementError, suggestion

READS = re.compile(r"(?:read_(?P<kind>parquet|csv|json).*|read_files|parquet_scan)")


def no_function(name: str, hint: str, position: Position | None) -> StatementError:
    """Return the error of a function that there is not; one by which others read files has its own hint.

    Args:
        hint: follows the message.
    """
    if (reads := READS.fullmatch(name.lower())) is not None:
        kind = reads["kind"] or "parquet"
        hint = f" Read files as a table: {kind}.`path`, or CREATE TEMPORARY VIEW v USING {kind} OPTIONS (path 'path')."
    return StatementError(f"There is no function {name}.{hint}", position)


def absent(what: str, name: str, known: Iterable[str], position: Position | None) -> StatementError:
    """Return the error of a name that nothing has."""
    names = list(known)
    return StatementError(f"There is no {what} {name}.{suggestion(name, names) if names else ''}", position)


def gone(path: str) -> str:
    """Return what to say of a file that was there when a statement began."""
    return f"{path} is gone: it was deleted, or its table or model replaced or dropped, while the statement ran. Run it again."
