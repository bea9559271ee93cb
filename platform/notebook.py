"""`%load_ext xpsql`: the magic `%%xpsql` of IPython and Jupyter, which runs a cell of statements.

%load_ext xpsql
%xpsql --warehouse warehouse
%%xpsql scored <<
SELECT * FROM ML.PREDICT(MODEL ctr, TABLE day)
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any

from .cli.failure import describe
from .errors import StatementError, XpsqlError
from .result import Result
from .session import Session, connect

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

ASSIGNED = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)\s*<<)?\s*(?P<rest>.*)", re.DOTALL)


class Notebook:
    """The magic of one shell, and the session that its cells share.

    Args:
        shell: runs the notebook, and has its variables.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._session: Session | None = None

    def run(self, line: str, cell: str | None = None) -> Result | None:
        """Run `%xpsql [--warehouse folder] [--engine name] [statement]` or `%%xpsql [--...] [name <<]` with a cell.

        Returns:
            The last statement's result, shown by the notebook; nothing where `name <<` takes it, or an error is printed.
        """
        try:
            given, rest = parser().parse_known_args(line.split())
        except ValueError as error:
            print(f"Error: {error}", file=sys.stderr)
            return None
        match = ASSIGNED.fullmatch(" ".join(rest))
        assert match is not None  # its last part takes anything
        name, text = match["name"], match["rest"] if cell is None else cell
        try:
            session = self.session(given)
            result = session.sql(text) if text.strip() else None
        except XpsqlError as error:
            print(describe(error, text, "", debug=False), file=sys.stderr)
            return None
        if name is not None:
            self._shell.user_ns[name] = result
            return None
        return result

    def session(self, given: argparse.Namespace) -> Session:
        """Return the session that cells share: the notebook's own variable that `--session` names, or one that is opened.

        Raises:
            StatementError: the variable is no session.
        """
        if given.session is not None:
            found = self._shell.user_ns.get(given.session)
            if not isinstance(found, Session):
                raise StatementError(f"Expected a session in the variable {given.session}; make one with xpsql.connect().")
            self._session = found
        elif given.warehouse is not None or given.engine is not None or self._session is None or self._session.closed:
            self._session = connect(given.warehouse, given.engine)
        return self._session


class MagicParser(argparse.ArgumentParser):
    """Reads the options of a magic; an error is an exception, not the end of the notebook."""

    def error(self, message: str) -> Any:
        raise ValueError(message)


def parser() -> MagicParser:
    options = MagicParser(add_help=False, allow_abbrev=False)
    options.add_argument("--warehouse")
    options.add_argument("--engine")
    options.add_argument("--session")
    return options


def load(shell: InteractiveShell) -> None:
    """Register the magic in a shell."""
    shell.register_magic_function(Notebook(shell).run, "line_cell", "xpsql")  # type: ignore[arg-type]  # IPython's own hint is wrong
