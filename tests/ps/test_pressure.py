"""A shard near its limit of memory slows down, sweeps, and fails with the numbers."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.ps.test_remote_client import new_shard, pushed, random_keys
from xpsql.platform.errors import TrainingError
from xpsql.platform.ps import pressure as module
from xpsql.platform.ps.client import LocalClient
from xpsql.platform.ps.messages import NO_MOMENTS, Description
from xpsql.platform.ps.pressure import MEBIBYTE, Pressure
from xpsql.platform.ps.service import PUSH
from xpsql.platform.ps.shard import Shard
from xpsql.platform.training.tasks.shard_task import handlers_of


class Process:
    """Stands for a shard and its process."""

    def __init__(self, *used: int) -> None:
        self.used = list(used)
        self.sweeps = 0
        self.reported: list[tuple[str, bool]] = []

    def describe(self) -> Description:
        used = self.used.pop(0) if len(self.used) > 1 else self.used[0]
        return Description(12345, used * MEBIBYTE, 0, {}, NO_MOMENTS, 0, 0)

    def sweep(self) -> None:
        self.sweeps += 1

    def note(self, message: str, full: bool) -> None:
        self.reported.append((message, full))

    def pressure(self) -> Pressure:
        return Pressure("Shard 3 of m v1", 1000 * MEBIBYTE, self.describe, self.sweep, self.note)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)


def test_far_from_the_limit_nothing_happens() -> None:
    process = Process(849)
    process.pressure().ease()
    assert (process.sweeps, process.reported) == (0, [])


def test_near_the_limit_pushes_are_slowed_while_memory_grows_rows_are_swept_and_the_driver_is_reported_once() -> None:
    process = Process(950, 950, 960)
    pressure = process.pressure()
    began = time.monotonic()
    for _ in range(2):
        pressure.ease()
    assert time.monotonic() - began >= 2 * 0.9 * module.MOST_DELAY_SECONDS * (0.95 - 0.85) / (0.97 - 0.85)
    assert process.sweeps == 1
    (message, full), *rest = process.reported
    assert message.startswith("Shard 3 of m v1 holds 12,345 rows in 950 of the 1,000 MiB that it is granted.")
    assert not full
    assert not rest


def test_memory_that_grows_no_more_slows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(960)
    pressure = process.pressure()
    pressure.ease()
    monkeypatch.setattr(module, "MOST_DELAY_SECONDS", 1e9)  # would wait for ever
    pressure.ease()


def test_at_the_limit_a_push_fails_with_the_numbers_after_the_driver_was_notified() -> None:
    process = Process(980)
    with pytest.raises(TrainingError, match=r"12,345 rows in 980 of the 1,000 MiB .* no more rows\. Use more shards"):
        process.pressure().ease()
    assert process.sweeps == 1
    assert [full for _, full in process.reported] == [True]


def test_memory_is_looked_at_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 60.0)
    process = Process(100, 990)
    pressure = process.pressure()
    for _ in range(5):
        pressure.ease()
    assert process.used == [990]


def test_the_memory_of_a_shard_is_read_while_no_push_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    shard, held = new_shard(), []

    def memory_bytes(of: Shard) -> int:
        held.append(of._lock.locked())
        return 0

    monkeypatch.setattr(Shard, "memory_bytes", property(memory_bytes))
    job: Any = SimpleNamespace(
        contact=SimpleNamespace(job="m v1"),
        input=SimpleNamespace(places=SimpleNamespace(shards=1)),
        memory_bytes=1,
        checkpoints=None,
    )
    member: Any = None  # of whom nothing is asked far from the limit
    (push,) = (handler for handler in handlers_of(shard, None, 0, job, member) if handler.call is PUSH)
    push.answer(pushed(LocalClient([shard]), random_keys(10, 0), 0))
    assert held == [True]
