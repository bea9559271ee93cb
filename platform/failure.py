"""Errors as people read them, on a terminal and in a notebook: the message, the position, and the line with carets under it."""

from __future__ import annotations

import traceback
from itertools import takewhile
from pathlib import Path
from shutil import get_terminal_size

from .display import one_line
from .errors import Position, StatementError, XpsqlError

ELLIPSIS = "…"
LEAST_CELLS = 20
PACKAGE = str(Path(__file__).parents[1])


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
    hint = "" if debug or isinstance(error, XpsqlError) else ". --debug shows where."
    lines.append(f"Error{f' ({where})' if where else ''}: {message(error)}{hint}")
    lines += getattr(error, "__notes__", [])
    if position is not None:
        lines += excerpt(text, position)
    return "\n".join(lines)


def brief_traceback(error: XpsqlError) -> list[str]:
    """Return what a notebook shows in place of a traceback: the message, and the line that called xpsql."""
    called = list(takewhile(lambda frame: not frame.filename.startswith(PACKAGE), traceback.extract_tb(error.__traceback__)))
    where = []
    if called:
        file, line, _, code = called[-1]
        cell = "ipykernel" in file or file.startswith("<")
        where = [f"In {'' if cell else f'{file}, '}line {line}: {code}"]
    return [describe(error, error.script, "", debug=False), *where]


def interruption(stopped: KeyboardInterrupt) -> str:
    """Return the message for what Ctrl-C stopped."""
    return "\n".join(["Interrupted.", *getattr(stopped, "__notes__", [])])


def message(error: BaseException) -> str:
    if isinstance(error, StatementError):
        return error.message
    if isinstance(error, XpsqlError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def place(position: Position | None, name: str) -> str:
    at = f"line {position.line}, column {position.column}" if position else ""
    return ", ".join(part for part in (name, at) if part)


def excerpt(text: str, position: Position) -> list[str]:
    """Return the line of a position, as much of it as a terminal shows, and a line of carets under what is wrong there."""
    from rich.cells import cell_len

    lines = text.split("\n")
    if not text or not 0 < position.line <= len(lines):
        return []
    line, start = lines[position.line - 1], position.column - 1
    shown = position.text.partition("\n")[0]
    wrong = shown if line.startswith(shown, start) else line[start : start + 1]
    margin = f"{position.line:>5} | "
    before, after = window(one_line(line[:start]), one_line(line[start:]), get_terminal_size().columns - len(margin))
    carets = max(min(cell_len(wrong), cell_len(after)), 1)
    return [margin + before + after, " " * (len(margin) - 2) + "| " + " " * cell_len(before) + "^" * carets]


def window(before: str, after: str, cells: int) -> tuple[str, str]:
    """Return what a terminal of some cells shows of a line, before and after a place in it; an ellipsis stands for the rest."""
    from rich.cells import cell_len, set_cell_size

    cells = max(cells, LEAST_CELLS)
    left = max(cells // 3, cells - cell_len(after))
    if cell_len(before) > left:
        before = ELLIPSIS + set_cell_size(before[::-1], left - 1)[::-1]
    right = cells - cell_len(before)
    if cell_len(after) > right:
        after = set_cell_size(after, right - 1) + ELLIPSIS
    return before, after
