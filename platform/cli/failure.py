"""Errors on a terminal: the message, the position, and the line with carets under it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from ..errors import NO_MEMORY, XpsqlError, is_of_memory
from ..system import of_package, of_system

MODULES = {name: name for name in ("check", "metrics", "monitor", "pack", "ps", "replay", "serve", "sign", "status")}
MODULES["verify"] = "sign"
"""The modules of commands that the command's own module does not have."""


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
    """Commands that end at Ctrl-C with a message of ours and 130, also while their arguments are read.

    Args:
        modules: of more commands, by their names: one is imported when its command is asked for.
    """

    def __init__(self, *given: Any, modules: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*given, **settings)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *self._modules})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name; None where there is none."""
        if cmd_name in self._modules:
            import_module(f".{self._modules[cmd_name]}", __package__)
        return super().get_command(ctx, cmd_name)

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
