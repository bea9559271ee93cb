"""The interactive shell: statements over several lines until `;`, with history and completion."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import pyarrow as pa
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output

from ..engines.spark_sql.lexer import tokenize
from ..engines.spark_sql.passage import Passage
from ..errors import StatementError
from ..session import Session
from .completion import Names
from .failure import describe, interruption

WORDS_TO_LEAVE = ("exit", "quit")


def read_statements(
    session: Session,
    variables: Mapping[str, str],
    write: Callable[[pa.Table], None],
    debug: bool,
    keys: Input | None = None,
    screen: Output | None = None,
) -> None:
    """Read and run statements until Ctrl-D or `exit`; Ctrl-C drops the line, or stops the statement that runs.

    `keys` and `screen` stand for the terminal where there is none.
    """
    prompt: PromptSession[str] = PromptSession(
        "xpsql> ",
        history=earlier(),
        completer=Names(session),
        complete_while_typing=False,
        multiline=True,
        prompt_continuation="    -> ",
        key_bindings=bindings(),
        input=keys,
        output=screen,
    )
    while True:
        try:
            text = prompt.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.strip().rstrip(";").lower() in WORDS_TO_LEAVE:
            return
        run(session, text, variables, write, debug)


def run(session: Session, text: str, variables: Mapping[str, str], write: Callable[[pa.Table], None], debug: bool) -> None:
    """Run what was entered; an error is shown and the shell goes on."""
    try:
        for result in session.run(text, variables, None):
            click.echo("OK") if result.table is None else write(result.table)
    except KeyboardInterrupt as stopped:
        click.echo(interruption(stopped), err=True)
    except Exception as error:
        click.echo(describe(error, text, "", debug), err=True)


def earlier() -> History:
    """Return the earlier statements, of a file in the user's state folder; of this shell alone where that is not writable."""
    try:
        file = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "xpsql" / "history"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.open("ab").close()
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return InMemoryHistory()
    return FileHistory(file)


def bindings() -> KeyBindings:
    """Let Enter end a finished entry, and start a new line in any other."""
    keys = KeyBindings()

    @keys.add("enter", filter=Condition(lambda: finished(get_app().current_buffer.text)))
    def accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


def finished(text: str) -> bool:
    """Return whether an entry is complete: empty, a word to leave, or ended by a semicolon outside strings and comments."""
    if not text.strip() or text.strip().lower() in WORDS_TO_LEAVE:
        return True
    try:
        tokens = tokenize(Passage.of(text))
    except StatementError:
        return False
    return bool(tokens) and tokens[-1].text == ";"
