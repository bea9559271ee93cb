"""Local paths that statements and the command line take."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .errors import Position, StatementError

URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # a scheme has two letters or more: C:/ is a drive


def local_path(text: str, what: str, position: Position | None) -> Path:
    """Return the absolute path that a path or file:// URL names.

    Args:
        what: names it in the message: "A warehouse".

    Raises:
        StatementError: a URI of another kind, or what no system has as a path.
    """
    scheme = URI.match(text)
    path = text if scheme is None else unquote(urlsplit(text).path)
    if "\0" in path:
        raise StatementError(f"{what} is a path, and no path has the character NUL; got {text!r}. Leave it out.", position)
    if scheme is None:
        return Path(path).expanduser().absolute()
    if scheme[1].lower() != "file":
        message = f"{what} is a local path or a file:// URL, got {text!r}. Mount {scheme[1]}:// as a folder."
        raise StatementError(message, position)
    return Path(path).absolute()
