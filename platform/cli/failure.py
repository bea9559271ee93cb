"""Errors as readers of a terminal want them: the message, the place, and the line with a caret under it."""

from __future__ import annotations

import traceback

from ..errors import Position, StatementError, XpsqlError


def describe(error: BaseException, text: str, name: str, debug: bool) -> str:
    """Return the message for an error.

    Args:
        error: what was raised.
        text: the script that ran.
        name: its file's name, or an empty string.
        debug: add the traceback.
    """
    lines = []
    if debug:
        lines.append("".join(traceback.format_exception(error)).rstrip())
    position = error.position if isinstance(error, StatementError) else None
    where = place(position, name)
    lines.append(f"Error{f' ({where})' if where else ''}: {message(error)}")
    lines += getattr(error, "__notes__", [])
    if position is not None:
        lines += excerpt(text, position)
    return "\n".join(lines)


def message(error: BaseException) -> str:
    if isinstance(error, StatementError):
        return error.message
    if isinstance(error, XpsqlError):
        return str(error)
    return f"{type(error).__name__}: {error}. XPSQL_DEBUG=1 shows where."


def place(position: Position | None, name: str) -> str:
    at = f"line {position.line}, column {position.column}" if position else ""
    return ", ".join(part for part in (name, at) if part)


def excerpt(text: str, position: Position) -> list[str]:
    """Return the line of a position and a line of carets under what is wrong there."""
    lines = text.split("\n")
    if not 0 < position.line <= len(lines):
        return []
    line = lines[position.line - 1]
    before = line[: position.column - 1]
    shown = position.text.partition("\n")[0]
    width = len(shown) if line[position.column - 1 :].startswith(shown) else 1
    padding = "".join("\t" if character == "\t" else " " for character in before)
    margin = f"{position.line:>5} | "
    return [margin + line, " " * (len(margin) - 2) + "| " + padding + "^" * max(width, 1)]
