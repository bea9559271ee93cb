"""Errors on a terminal: the message, the position, and the line with carets under it."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import click

from ..errors import NO_MEMORY, XpsqlError, is_of_memory
from ..system import of_package, of_system


def describe(error: BaseException, text: str, name: str, debug: bool) -> str:
    """Return the message for an error.

    Args:
        error: what was raised.
        text: the script that ran.
        name: its file's name, or an empty string.
        debug: add the traceback.
    """
    lines = ["".join(traceback.format_exception(error)).rstrip()] if debug else []
    if is_of_memory(error):
        error = XpsqlError(NO_MEMORY)
    if isinstance(error, ModuleNotFoundError):
        error = of_package(error, "This") or error
    if isinstance(error, OSError):
        error = of_system(error)
    if isinstance(error, XpsqlError):
        return "\n".join([*lines, *error.described(text, name)])
    where, hint = f" ({name})" if name else "", "" if debug else ". --debug shows where."
    return "\n".join([*lines, f"Error{where}: {type(error).__name__}: {error}{hint}", *getattr(error, "__notes__", [])])


class CommandGroup(click.Group):
    """Commands that end at Ctrl-C with a message of ours and 130, also while their arguments are read."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            click.echo(interruption(stopped), err=True)
            sys.exit(130)


def interruption(stopped: KeyboardInterrupt) -> str:
    """Return the message for what Ctrl-C stopped."""
    return "\n".join(["Interrupted.", *getattr(stopped, "__notes__", [])])
