"""Limits on open connections: each takes one of a process's file descriptors, and a thread where it is served."""

from __future__ import annotations

import resource
import socket

from ...errors import TrainingError
from .wire import ConnectionLimits

OWN_FILES = 256  # of the process itself: Parquet files, libraries, the engine's sockets, and half of it strangers' (Limits)


def make_room(connections: int) -> None:
    """Let this process have so many connections: raise its limit of open files where that is too low.

    Raises:
        TrainingError: the hard limit is lower; says how far it must be raised.
    """
    files = connections + OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if suffices(soft, files):
        return
    if not suffices(hard, files):
        raise TrainingError(
            f"A process on {socket.gethostname()} needs {connections} connections at once, so {files} open files, and may have "
            f"{hard}. Raise its limit (ulimit -Hn) to {files}, or use fewer workers and shards."
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


def suffices(limit: int, files: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= files


def room_for(connections: int) -> ConnectionLimits:
    """Make room for so many connections of a job's tasks, and return what their server grants them.

    It takes twice as many, as connections of lost tasks may linger beside their replacements'.

    Raises:
        TrainingError: see make_room.
    """
    make_room(connections)
    return ConnectionLimits(connections=max(ConnectionLimits().connections, 2 * connections))
