"""Shards and workers as tasks, from start to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tests.training.processes import WORDS
from xpsql.platform.engines.tasks import Running, Task
from xpsql.platform.errors import LostError, TrainingError
from xpsql.platform.ps.transport.over_sockets import SocketTransport
from xpsql.platform.training.parallelism import Places
from xpsql.platform.training.tasks import cluster


class NeverReady:
    """Starts tasks that never serve."""

    host = "127.0.0.1"
    words = WORDS

    def slots(self, wanted: int, gang: bool) -> int:
        return wanted

    def memory_bytes(self) -> int | None:
        return None

    def start(self, function: Callable[[Task], None], count: int, name: str, gang: bool) -> Running:
        return self

    def wait(self, seconds: float) -> bool:
        return False

    def cancel(self) -> None:
        pass


def test_shards_have_their_time_to_start_however_much_happens_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "START_SECONDS", 0.5)
    with cluster.cluster(NeverReady(), "m v1", Places(1, 1), (), lambda *_: None, None, False, SocketTransport()) as on:
        ended = threading.Event()

        def news() -> None:
            while not ended.wait(0.001):
                on.coordinator.dismiss("worker")

        on.start_shards(lambda task: None, 1)
        noise, began = threading.Thread(target=news), time.monotonic()
        noise.start()
        try:
            with pytest.raises(TrainingError, match="have not started within"):
                on.addresses()
        finally:
            ended.set()
            noise.join()
        assert time.monotonic() - began >= 0.5


def test_workers_that_never_start_end_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "START_SECONDS", 0.2)
    with cluster.cluster(NeverReady(), "m v1", Places(1, 1), (), lambda *_: None, None, False, SocketTransport()) as on:
        on.start_shards(lambda task: None, 1)
        on.start_workers(lambda task: None, 1, "train m v1", False)
        with pytest.raises(TrainingError, match="The workers of m v1 have not started within"):
            on.wait_for_workers()


class Failing(NeverReady):
    """Starts tasks that fail before they have joined."""

    def __init__(self, error: TrainingError) -> None:
        self.error = error

    def wait(self, seconds: float) -> bool:
        raise self.error


@pytest.mark.parametrize("role", ["shard", "worker"])
@pytest.mark.parametrize("lost", [True, False])
def test_a_loss_before_the_first_task_has_joined_is_a_loss_and_another_failure_is_none(role: str, lost: bool) -> None:
    reported = "train m v1 failed: Connection reset." if lost else "The executors run Python 3.9, the driver 3.11."
    tasks = Failing(LostError(reported) if lost else TrainingError(reported))
    with cluster.cluster(tasks, "m v1", Places(1, 1), (), lambda *_: None, None, False, SocketTransport()) as on:
        on.start_shards(lambda task: None, 1)
        on.start_workers(lambda task: None, 1, "train m v1", False)
        with pytest.raises(TrainingError, match=reported) as raised:
            on.addresses() if role == "shard" else on.wait_for_workers()
    assert isinstance(raised.value, LostError) is lost
