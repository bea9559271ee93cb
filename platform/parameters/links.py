"""How a client reaches the shards and the holder of a server: its links in an epoch."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .calls import TableClient
from .declared import DeclaredTables
from .service import ServiceLink

if TYPE_CHECKING:
    pass


class Connected(NamedTuple):
    """A client's links in an epoch.

    Attributes:
        clients: by table.
        number: of the client, whose turn is its own.
        files, lost: see ParameterServer; folder: of the service.
    """

    declared: DeclaredTables
    clients: Mapping[str, TableClient]
    link: ServiceLink
    epoch: int
    number: int
    files: Mapping[str, Path]
    folder: Path
    close: Callable[[], object]
    lost: str = ""


class Connects(Protocol):
    """Makes a client's links: when it begins, and after a loss."""

    def __call__(self) -> Connected:
        """Join the service.

        Raises:
            XpsqlError: it cannot be reached, or refuses.
        """
        ...


def who() -> str:
    """Return this process, for messages."""
    return f"process {os.getpid()} on {socket.gethostname()}"
