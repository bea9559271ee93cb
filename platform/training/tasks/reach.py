"""Whether the network lets the tasks of a job connect to the driver and to each other.

What a network forbids is no loss: to start the tasks again would not help, so the training ends with what to do.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence

from ...errors import LostError, TrainingError
from ...ps.transport.base import CallLink, ShardsClient
from ...ps.transport.sockets import Address
from .messages import Contact

LOOK_SECONDS = 0.1
ALLOW = (
    "Allow connections on all ports among the machines of the driver and of executors, as docs/clusters.md tells for each kind "
    "of cluster: firewalls, network policies, and modes that isolate users' code (Databricks: use access mode dedicated)."
)


def link_to_driver(contact: Contact) -> CallLink:
    """Return a link from a task to its job's driver.

    Raises:
        TrainingError: nothing is reached at the driver's address.
        LostError: the driver does not answer.
    """
    try:
        return contact.dial()
    except LostError as error:
        if contact.transport.reaches(contact.address):
            raise
        raise TrainingError(
            f"A task on {socket.gethostname()} cannot connect to the driver of {contact.job} at {contact.address}. {ALLOW}"
        ) from error


def client_of_shards(
    contact: Contact, who: str, addresses: Sequence[Address], seconds: float, silent: Callable[[], float]
) -> ShardsClient:
    """Return a client of a job's shards.

    Args:
        who: asks them.
        seconds: how long an answer may take.
        silent: returns how long ago that shard was heard of which is silent longest; raises what ends the job.

    Raises:
        TrainingError: a shard that lives cannot be reached from here.
        LostError: a shard does not answer.
    """
    try:
        return contact.dial_shards(addresses, seconds)
    except LostError as error:
        reaches, began = contact.transport.reaches, time.monotonic()
        hidden = next((number for number, address in enumerate(addresses) if not reaches(address)), None)
        if hidden is None:
            raise
        while silent() >= time.monotonic() - began:
            time.sleep(LOOK_SECONDS)
        if reaches(addresses[hidden]):
            raise
        raise TrainingError(
            f"{who} of {contact.job} on {socket.gethostname()} cannot connect to shard {hidden} at {addresses[hidden]}, "
            f"which runs. {ALLOW}"
        ) from error
