"""Requests to a service through loopback, by load.cpp: a process on a core of its own, where there is one.

The service and what it starts run on the first core that this process may use, the client on the second.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SERVICE_CORE, CLIENT_CORE = 0, 1
CONNECTIONS = 8


def latencies(
    port: int, requests: Sequence[bytes], rate: float, seconds: float, connections: int = CONNECTIONS, lines: int = 0
) -> NDArray[np.float64]:
    """Return the seconds that each request took from when it was due.

    Args:
        requests: sent in turn.
        rate: requests a second; 0: each connection sends its next one when the one before is answered.
        lines: answers are so many lines, without HTTP.

    Raises:
        RuntimeError: a request was not answered, or not well.
    """
    with tempfile.NamedTemporaryFile() as file, on_core(CLIENT_CORE):
        for request in requests:
            file.write(struct.pack("<I", len(request)) + request)
        file.flush()
        command = [
            str(program()),
            str(port),
            str(connections),
            str(rate),
            str(seconds),
            file.name,
            *([str(lines)] if lines else []),
        ]
        done = subprocess.run(command, capture_output=True, timeout=120 + 2 * seconds, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return np.frombuffer(done.stdout)


def posted(path: str, kind: str, bodies: Sequence[bytes]) -> list[bytes]:
    """Return bodies as requests of HTTP."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: "
    return [f"{head}{len(body)}\r\n\r\n".encode() + body for body in bodies]


@functools.cache
def program() -> Path:
    """Compile load.cpp.

    Raises:
        RuntimeError: there is no compiler of C++.
    """
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        raise RuntimeError("A service is measured by load.cpp, which needs a compiler of C++: set CXX.")
    folder = Path(tempfile.mkdtemp(prefix="xpsql-load-"))
    atexit.register(shutil.rmtree, folder)
    source = Path(__file__).with_suffix(".cpp")
    subprocess.run([compiler, "-O2", "-std=c++17", source, "-o", folder / "load"], check=True)
    return folder / "load"


@contextmanager
def on_core(number: int) -> Iterator[None]:
    """Let processes that are started meanwhile use one core of those that this one may use."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[number % len(allowed)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
