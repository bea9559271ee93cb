"""The interactive shell: statements over several lines until `;`, with history and completion."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import click
import pyarrow as pa
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output

from ..display import line_table
from ..engines.base import Statements
from ..engines.spark_sql.lexer import tokenize
from ..engines.spark_sql.passage import Passage
from ..errors import StatementError
from ..quoting import masked
from ..session import Session
from ..sql.script import may_begin
from .completion import Names
from .failure import describe, interruption
from .output import SHOWN_ROWS, write_table
from .screen import MOST_ROWS, StatementLexer, fitted, shown

OWN = 0o600
"""The mode of a file that nobody else reads."""
WORDS_TO_LEAVE = ("exit", "quit", "\\q", ".exit", ".quit")
BANNER = "xpsql {version}: statements end with a semicolon; help lists what else there is, and Ctrl-D leaves."
HELP = """\
Statements end with a semicolon; Tab completes words, names, options and columns.
DESCRIBE ALGORITHM, DESCRIBE OPERATOR and DESCRIBE TRAIN MODEL list options.

  help      this text
  .tables   the tables and views, also \\d and \\dt; with a name, as in \\d clicks, its columns, also .schema
  clear     clear the screen
  \\x        a line for each column of a row, and back
  \\timing   how long each statement takes, and back
  \\pager    no pager for what is longer than the screen, and back
  exit      leave, as Ctrl-D does"""


class Commands:
    """The shell's own words, which need no semicolon, and what they have changed.

    Attributes:
        lines: a row is shown as a block of lines.
        timed: the time of each statement is shown.
        paged: what is longer than the screen goes through a pager.
    """

    words = ("help", ".tables", ".schema", "\\d", "\\dt", "clear", "\\x", "\\timing", "\\pager")
    describing = (".schema", "\\d")

    def __init__(self, session: Session, write: Callable[[pa.Table], None]) -> None:
        self.lines = self.timed = False
        self.paged = True
        self._session = session
        self._write = write

    def run(self, word: str) -> None:
        """Run one of `words`, or tell that a word is none."""
        match word:
            case "help" | ".help" | "\\h" | "\\?":
                click.echo(HELP)
            case "clear":
                click.clear()
            case ".tables" | ".schema" | "\\d" | "\\dt":
                click.echo("\n".join(self._session.engine.relations()) or "There are no tables.")
            case "\\x":
                self.lines = not self.lines
                click.echo(f"Rows are shown {'in lines' if self.lines else 'as a table'}.")
            case "\\timing":
                self.timed = not self.timed
                click.echo(f"Times are {'shown' if self.timed else 'hidden'}.")
            case "\\pager":
                self.paged = not self.paged
                click.echo(f"The pager is {'on' if self.paged else 'off'}.")
            case _:
                click.echo(f"There is no command {word.split()[0]}; help lists them.", err=True)

    def write(self, table: pa.Table) -> None:
        """Write the rows of a result as `lines` says."""
        if self.lines:
            shown(line_table(table, MOST_ROWS if sys.stdout.isatty() else SHOWN_ROWS), self.paged)
        elif self._write is write_table and sys.stdout.isatty():
            shown(fitted(table, shutil.get_terminal_size().columns), self.paged)
        else:
            self._write(table)


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
        lexer=PygmentsLexer(StatementLexer),
        complete_while_typing=False,
        multiline=True,
        prompt_continuation="    -> ",
        key_bindings=bindings(session.engine.statements),
        input=keys,
        output=screen,
    )
    commands = Commands(session, write)
    click.echo(BANNER.format(version=version("xpsql")), err=True)
    while True:
        try:
            text = prompt.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        word, name = word_of(text), named(text)
        if word in WORDS_TO_LEAVE:
            return
        if name is not None:
            run(session, f"DESCRIBE {name}", variables, commands, debug)
        elif is_command(word):
            commands.run(word)
        else:
            run(session, text, variables, commands, debug)


def run(session: Session, text: str, variables: Mapping[str, str], commands: Commands, debug: bool) -> None:
    """Run what was entered; an error is shown and the shell goes on."""
    began = time.perf_counter()
    try:
        for result in session.run(text, variables, None):
            click.echo("OK") if result.table is None else commands.write(result.table)
            if commands.timed:
                click.echo(f"Time: {time.perf_counter() - began:.3f} s")
            began = time.perf_counter()
    except KeyboardInterrupt as stopped:
        click.echo(interruption(stopped), err=True)
    except Exception as error:
        click.echo(describe(error, text, "", debug), err=True)


def earlier() -> History:
    """Return the earlier statements, of a file in the user's state folder; of this shell alone where that is not writable."""
    try:
        file = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "xpsql" / "history"
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, OWN))
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return InMemoryHistory()
    return MaskedHistory(file)


class MaskedHistory(FileHistory):
    """Earlier statements; of their secrets, those of this shell alone are known."""

    def store_string(self, string: str) -> None:
        super().store_string(masked(string))


def bindings(others: Statements) -> KeyBindings:
    """Let Enter end a finished entry, and start a new line in any other."""
    keys = KeyBindings()

    @keys.add("enter", filter=Condition(lambda: finished(get_app().current_buffer.text, others)))
    def accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


def word_of(text: str) -> str:
    """Return an entry as one of the shell's own words is compared."""
    return text.strip().rstrip(";").lower()


def named(text: str) -> str | None:
    """Return the table of an entry that asks for one, as `\\d clicks` and `.schema clicks`."""
    word, _, name = text.strip().rstrip("; ").partition(" ")
    return name.strip() or None if word.lower() in Commands.describing else None


def is_command(word: str) -> bool:
    """Return whether a word is for the shell: no statement begins with a backslash or a dot."""
    return word in Commands.words or word.startswith(("\\", "."))


def finished(text: str, others: Statements) -> bool:
    """Return whether an entry is complete: empty, a word of the shell, ended by a semicolon outside strings and comments, or
    begun by a word that begins no statement, which no further line can mend."""
    if not text.strip() or word_of(text) in WORDS_TO_LEAVE or is_command(word_of(text)):
        return True
    try:
        tokens = tokenize(Passage.of(text))
    except StatementError:
        return False
    return bool(tokens) and (tokens[-1].text == ";" or (tokens[0].kind == "word" and not may_begin(tokens[0].text, others)))
