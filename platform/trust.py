"""Trust in source text that a model carries: to load such a model is to run that text.

Trusted is a text that a statement of this process names, any text after `allow`, and texts that this user allowed before; these
are kept as hashes in a file of the user's, outside of any warehouse.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from .errors import ModelError

FILE = "trusted"


class Trust:
    """What this process may run; `allowed` is set by `connect(trust=True)`, and in tasks, for which the driver decides."""

    def __init__(self) -> None:
        self.allowed = False
        self.keeps = False
        self._seen: set[str] = set()

    def allow(self, keep: bool) -> None:
        """Run whatever models carry.

        Args:
            keep: remember what is run for later processes of this user.
        """
        self.allowed, self.keeps = True, keep

    def add(self, text: str) -> None:
        """Trust a text that a statement of this process names."""
        self._seen.add(digest(text))

    def check(self, text: str, what: str) -> None:
        """Refuse an untrusted text.

        Raises:
            ModelError: says how to.
        """
        own = digest(text)
        if own in self._seen:
            return
        if not self.allowed and own not in kept():
            raise ModelError(
                f"The model carries source text, {what} (SHA-256 {own[:12]}), which runs when it is loaded, and you have not "
                "trusted it. If you know who wrote it, give --trust or connect(trust=True) once."
            )
        if self.keeps:
            keep(own)
        self._seen.add(own)


TRUST = Trust()


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def trust_file() -> Path:
    """Return where hashes are kept: $XDG_CONFIG_HOME/xpsql/trusted, or ~/.config/xpsql/trusted."""
    root = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return root / "xpsql" / FILE


def kept() -> frozenset[str]:
    """Return the hashes that this user has trusted."""
    try:
        return frozenset(trust_file().read_text(encoding="ascii").split())
    except FileNotFoundError:
        return frozenset()


def keep(hashed: str) -> None:
    """Remember a hash, in a file that its user alone can write."""
    if hashed in kept():
        return
    path = trust_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(number, "a", encoding="ascii") as file:  # noqa: PTH123  # of a descriptor
            file.write(hashed + "\n")
    except OSError as error:
        raise ModelError(f"What you trust cannot be kept in {path}: {error.strerror}. Make that file writable.") from error
