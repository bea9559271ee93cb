"""A server whose shards are processes that a test can kill."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from xpsql.platform.parameters.hosted import HostedServer, hosted
from xpsql.platform.parameters.opening import opened
from xpsql.platform.parameters.processes import LocalProcesses, Processes


class Killable(LocalProcesses):
    """Processes that a test can kill."""

    def __init__(self) -> None:
        self.running: list[Processes] = []

    def start(self, function: object, count: int, name: str, gang: bool) -> Processes:
        self.running.append(Processes(function, count, name))  # type: ignore[arg-type]
        return self.running[-1]

    def kill(self, number: int) -> None:
        os.kill(self.running[-1].processes[number].pid, signal.SIGKILL)


@pytest.fixture
def tasks() -> Killable:
    return Killable()


@pytest.fixture
def server(request: pytest.FixtureRequest, warehouse: Path, tasks: Killable) -> Iterator[HostedServer]:
    """A server of the tables TABLES of a test's module."""
    begun = opened(warehouse, "s", request.module.TABLES, 2, 0, None)
    with hosted(begun, tasks, checkpoint_seconds=None, tell=lambda line: None) as server:
        yield server
