"""The messages between tasks and the coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...ps.transport.base import CallLink, ServerTrust, ShardsClient, Transport
from ...ps.transport.sockets import Address
from ...ps.transport.wire import Acknowledged, Failure, Method


class Contact(NamedTuple):
    """How tasks reach the driver and each other; travels with the task's function.

    Attributes:
        job: for messages, "ctr v3".
        address: of the coordinator.
        secret: of the job.
        public: the certificate of all its servers as PEM; None without TLS.
        transport: by which all of them are reached.
    """

    job: str
    address: Address
    secret: bytes
    public: str | None
    transport: Transport

    def dial(self) -> CallLink:
        """Return a link to the coordinator.

        Raises:
            LostError: the driver cannot be reached.
        """
        trust = ServerTrust(self.secret, self.public)
        return self.transport.dial(f"the coordinator of {self.job}", self.address, trust)

    def dial_shards(self, addresses: Sequence[Address], seconds: float) -> ShardsClient:
        """Return a client of the shards, whose answers may take so many seconds; see Transport."""
        return self.transport.dial_shards(addresses, ServerTrust(self.secret, self.public), seconds)


class Join(NamedTuple):
    """A task that begins.

    Attributes:
        role: "shard" or "worker".
        number: of the task among the tasks of its role.
        attempt: 0 for the first.
        host, process: where it runs, for messages.
    """

    role: str
    number: int
    attempt: int
    host: str
    process: int


class Joined(NamedTuple):
    """Whether the task takes part.

    Attributes:
        accepted: it does. If not, and neither of the others is true, an attempt before it lives: ask again.
        ended: all tasks must end, or another attempt has done the work.
        replaced: a later attempt has taken its place.
    """

    accepted: bool
    ended: bool = False
    replaced: bool = False


class Ready(NamedTuple):
    """A task can be worked with; a shard's server listens at its address."""

    role: str
    number: int
    attempt: int
    address: Address


class Heartbeat(NamedTuple):
    """A heartbeat of a task; the answer comes after a second, or when the task must end."""

    role: str
    number: int
    attempt: int


class HeartbeatAnswer(NamedTuple):
    """The answer to a heartbeat: whether the task must end, since all do or it is replaced."""

    ended: bool


class Leave(NamedTuple):
    """A task ends, well or with an error."""

    role: str
    number: int
    attempt: int
    failure: Failure | None


class Left(NamedTuple):
    """Whether all tasks end, so that a lost connection of this task is no failure."""

    ended: bool


class Find(NamedTuple):
    """A request for the addresses of all shards."""


class ShardAddresses(NamedTuple):
    """The addresses of all shards, in order; nothing until all are ready.

    Attributes:
        silent: seconds since that shard was heard of which is silent longest.
    """

    shards: tuple[Address, ...]
    silent: float = 0.0


JOIN = Method("join", Join, Joined)


READY = Method("ready", Ready, Acknowledged)


BEAT = Method("beat", Heartbeat, HeartbeatAnswer)


LEAVE = Method("leave", Leave, Left)


FIND = Method("find", Find, ShardAddresses)
