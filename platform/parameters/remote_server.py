"""A client of a service whose shards are in other processes."""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..errors import LostError, XpsqlError
from ..ps.transport.base import ServerTrust
from ..ps.transport.connection import Connection, Exchange
from ..ps.transport.connection_limits import make_room
from ..ps.transport.over_sockets import SOCKETS
from ..ps.transport.sockets import Address
from ..ps.transport.wire import ConnectionLimits
from .calls import ORDER, RemoteTable, TablePort, ordered
from .client import ParameterServer
from .contact import ServiceContact, read_contact
from .declared import DeclaredTables
from .held import Answer
from .links import Connected, who
from .opening import folder_of

ORDER_SECONDS = 600.0
ROWS_SECONDS = 300.0
JOIN_SECONDS, AGAIN_SECONDS = 120.0, 0.1


class RemoteLink:
    """Orders to the holder of a service, by a connection; see ServiceLink.

    Raises:
        LostError: it cannot be reached, or has another secret.
    """

    def __init__(self, contact: ServiceContact) -> None:
        trust = ServerTrust(contact.secret, contact.public)
        self._lock = threading.Lock()
        self._connection = SOCKETS.dial(f"parameter server {contact.name}", contact.address, trust)

    def order(self, what: str, values: Mapping[str, Any]) -> Answer:
        """See ServiceLink."""
        with self._lock:
            return dict(json.loads(self._connection.call(ORDER, ordered(what, values), ORDER_SECONDS).text))

    def close(self) -> None:
        """See ServiceLink."""
        self._connection.close()


def connect(warehouse: str | Path | ServiceContact, name: str | None = None) -> ParameterServer:
    """Reach a parameter server that runs: `xpsql ps start`, or xpsql.ps.on_spark.

    Args:
        warehouse: its folder; or the contact of a server, as ps.contact has it, in tasks.
        name: of the server; None with a contact.

    Raises:
        NotAvailableError: it does not run, or is another user's.
        StatementError: it has another version of xpsql.
        LostError: it cannot be reached, or has another secret.
    """
    if isinstance(warehouse, ServiceContact):
        warehouse.check()
        return ParameterServer(warehouse.name, functools.partial(join, warehouse), warehouse)
    folder = folder_of(warehouse, name or "")
    contact = read_contact(name or "", folder)
    return ParameterServer(contact.name, lambda: join(read_contact(contact.name, folder)), contact)


def join(contact: ServiceContact) -> Connected:
    """Join a service; where a shard was lost, once its successor serves.

    Raises:
        LostError: it cannot be reached, or a shard not within two minutes.
    """
    with ExitStack() as stack:
        link = RemoteLink(contact)
        stack.callback(link.close)
        deadline = time.monotonic() + JOIN_SECONDS
        while True:
            joined = link.order("join", {"who": who()})
            try:
                connections = connected(contact.name, joined, stack)
                break
            except LostError:  # the holder may not have noticed yet
                if time.monotonic() > deadline:
                    raise
                time.sleep(AGAIN_SECONDS)
        exchange, declared = Exchange(connections), DeclaredTables.of_json(joined["declared"])
        clients = {
            table: RemoteTable([TablePort(at, connection, exchange, ROWS_SECONDS) for connection in connections])
            for at, table in enumerate(declared.tables)
        }
        files = {file: Path(path) for file, path in joined["files"].items()}
        closes = stack.pop_all()

    def leave() -> None:
        with closes, contextlib.suppress(XpsqlError):  # it may be gone, which frees it, too
            link.order("leave", {"number": joined["number"]})

    return Connected(
        declared, clients, link, int(joined["epoch"]), int(joined["number"]), files, Path(contact.folder), leave, joined["lost"]
    )


def connected(name: str, joined: Answer, stack: ExitStack) -> list[Connection]:
    """Return a connection to each shard, which a stack closes.

    Raises:
        LostError: one cannot be reached.
    """
    made: list[Connection] = []
    addresses = [Address(*one) for one in joined["addresses"]]
    make_room(len(addresses))
    for number, address in enumerate(addresses):
        peer = f"shard {number} of {len(addresses)} of parameter server {name}"
        made.append(Connection(peer, address, bytes.fromhex(joined["secret"]), ConnectionLimits(), joined["public"]))
        stack.callback(made[-1].close)
    return made
