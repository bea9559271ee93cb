"""The places of errors: a line of a statement with carets under what is wrong, and the line of Python that ran it."""

from __future__ import annotations

import traceback
from itertools import takewhile
from pathlib import Path
from shutil import get_terminal_size
from types import TracebackType

from .display import one_line
from .quoting import masked, masked_at

ELLIPSIS = "…"
LEAST_CELLS = 20
PACKAGE = str(Path(__file__).parents[1])


def caller(trace: TracebackType | None) -> list[str]:
    """Return a line that says where a notebook or a program called xpsql; nothing where none did."""
    called = list(takewhile(lambda frame: not frame.filename.startswith(PACKAGE), traceback.extract_tb(trace)))
    if not called:
        return []
    file, line, _, code = called[-1]
    in_notebook = "ipykernel" in file or file.startswith("<")
    return [f"In {'' if in_notebook else f'{file}, '}line {line}: {code}"]


def excerpt(script: str, row: int, column: int, text: str) -> list[str]:
    """Return a line of a script, as much of it as a terminal shows, and a line of carets under a text that is wrong there."""
    from rich.cells import cell_len

    lines = script.split("\n")
    if not script or not 0 < row <= len(lines):
        return []
    line, start = masked_at(lines[row - 1], column - 1)
    shown = masked(text.partition("\n")[0])
    wrong = shown if line.startswith(shown, start) else line[start : start + 1]
    margin = f"{row:>5} | "
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
