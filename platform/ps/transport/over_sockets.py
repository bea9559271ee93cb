"""The transport of every job: Unix sockets on one host, TCP between hosts, and TLS where the job has a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..remote import RemoteClient
from .base import ServerTrust
from .connection import Connection
from .server import Server
from .sockets import Address, reaches
from .tls import Certificate
from .wire import ConnectionLimits, Handler


class SocketTransport(NamedTuple):
    """Reaches servers through sockets; see Transport."""

    def dial(self, peer: str, address: Address, trust: ServerTrust) -> Connection:
        """See Transport."""
        return Connection(peer, address, trust.secret, ConnectionLimits(), trust.public)

    def dial_shards(self, addresses: Sequence[Address], trust: ServerTrust, seconds: float) -> RemoteClient:
        """See Transport."""
        return RemoteClient(addresses, trust.secret, seconds, public=trust.public)

    def reaches(self, address: Address) -> bool:
        """See Transport."""
        return reaches(address)

    def serve(
        self,
        name: str,
        handlers: Sequence[Handler[Any, Any]],
        secret: bytes,
        host: str,
        limits: ConnectionLimits,
        certificate: Certificate | None,
    ) -> Server:
        """See Transport."""
        return Server(name, handlers, secret, host, limits, certificate)


SOCKETS = SocketTransport()
"""The transport of trainings and predictions whose tasks run on the machines of an engine."""
