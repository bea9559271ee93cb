"""The processes of a training's tasks, and killing them at moments drawn from a seed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from xpsql.platform.errors import LostError
from xpsql.platform.ps import remote
from xpsql.platform.scoring import tasks
from xpsql.platform.training import monitor
from xpsql.platform.training.checkpoints import recovery
from xpsql.platform.training.tasks import coordinator, remote_checkpoints
from xpsql.platform.training.tasks.job import SAVE

MOMENTS = ("any", "checkpoint", "recovery", "saving")
WAIT_SECONDS = 300.0


class Fault(NamedTuple):
    """What is killed, and when.

    Attributes:
        kinds: "worker", "shard", "executor of a worker", "executor of a shard"; all of them at once.
        moment: one of MOMENTS: while it learns (at first, or again after the kill before) or after predictions of a split are
            written, or after a checkpoint, a recovery or the writing of the version has begun.
    """

    kinds: tuple[str, ...]
    moment: str = "any"


class Killed(NamedTuple):
    """A process that was killed, and when, in seconds since the training began."""

    kind: str
    process: int
    seconds: float


class Tasks:
    """The processes of a training's tasks, as they join its coordinator in this process, and what the driver is doing.

    Attributes:
        attempts: of each task, by role and number: the latest that has asked to take part.
        accepted: the latest that takes part.
    """

    def __init__(self) -> None:
        self._processes: dict[tuple[str, int], int] = {}
        self._begun = {moment: threading.Event() for moment in MOMENTS}
        self.attempts: dict[tuple[str, int], int] = {}
        self.accepted: dict[tuple[str, int], int] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note what happens until the block is left."""
        join, take, each = coordinator.Coordinator._join, remote_checkpoints.RemoteTaker.take, remote.RemoteClient.each
        lost, recovered, wrote = recovery.Recoveries.lost, monitor.Monitor.recovered, tasks.ScoringDriver._wrote

        def joined(self_: coordinator.Coordinator, request: coordinator.Join) -> coordinator.Joined:
            answer = join(self_, request)
            who = request.role, request.number
            self.attempts[who] = max(self.attempts.get(who, 0), request.attempt)
            if answer.accepted:
                first = {role for role, _ in self._processes} != {"shard", "worker"}
                self._processes[who], self.accepted[who] = request.process, request.attempt
                if first and {role for role, _ in self._processes} == {"shard", "worker"}:
                    self._begun["any"].set()
            return answer

        def taken(self_: remote_checkpoints.RemoteTaker, folder: str, full: bool) -> Any:
            self._begun["checkpoint"].set()
            return take(self_, folder, full)

        def noted(self_: recovery.Recoveries, who: str, error: LostError, silent_seconds: float = 0.0) -> None:
            lost(self_, who, error, silent_seconds)
            self._begun["recovery"].set()

        def learning(self_: monitor.Monitor, why: str, seconds: float) -> None:
            recovered(self_, why, seconds)
            self._begun["any"].set()

        def written(self_: tasks.ScoringDriver, reported: tasks.RowsWritten) -> Any:
            if reported.whole:
                self._begun["any"].set()
            return wrote(self_, reported)

        def called(self_: remote.RemoteClient, call: Any, request: Any, seconds: float) -> Any:
            if call is SAVE:
                self._begun["saving"].set()
            return each(self_, call, request, seconds)

        with (
            mock.patch.object(coordinator.Coordinator, "_join", joined),
            mock.patch.object(remote_checkpoints.RemoteTaker, "take", taken),
            mock.patch.object(recovery.Recoveries, "lost", noted),
            mock.patch.object(monitor.Monitor, "recovered", learning),
            mock.patch.object(remote.RemoteClient, "each", called),
            mock.patch.object(tasks.ScoringDriver, "_wrote", written),
        ):
            yield

    def wait(self, moment: str, stopped: threading.Event) -> bool:
        """Wait until the driver begins something; tell whether it does before the training ends."""
        event, deadline = self._begun[moment], time.monotonic() + WAIT_SECONDS
        if moment != "any":
            event.clear()
        while not event.wait(0.01):
            if stopped.is_set() or time.monotonic() > deadline:
                return False
        self._begun["any"].clear()
        return not stopped.is_set()

    def process(self, role: str, number: int) -> int:
        """Return the process of a task that takes part."""
        return self._processes[role, number]

    def victim(self, kind: str, draw: random.Random) -> int | None:
        """Return a process to kill; None where none of the kind is known to live."""
        role = kind.split()[-1]
        living = [process for (of, _), process in sorted(self._processes.items()) if of == role and alive(process)]
        if not living:
            return None
        process = draw.choice(living)
        return executor_of(process) if kind.startswith("executor") else process


def alive(process: int) -> bool:
    """Return whether a process runs; one that has ended and nobody has waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def parent(process: int) -> int:
    """Return the process that started another one."""
    return int(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def executor_of(process: int) -> int | None:
    """Return the JVM of the executor whose daemon forked a Python worker; None where it is gone."""
    try:
        found = parent(parent(process))
    except OSError:
        return None
    return found if found > 1 else None


class Killer(threading.Thread):
    """Kills what it is asked to, one fault after the other.

    Args:
        pause_seconds: least and most seconds between a moment and the kill.
        seed: of the pauses, and of which process of a kind is killed.
    """

    def __init__(self, tasks: Tasks, faults: Sequence[Fault], pause_seconds: Sequence[float], seed: int) -> None:
        super().__init__(name="killer", daemon=True)
        self.killed: list[Killed] = []
        self.stopped = threading.Event()
        self._tasks = tasks
        self._faults = faults
        self._pause_seconds = pause_seconds
        self._draw = random.Random(seed)

    def run(self) -> None:
        began = time.monotonic()
        for fault in self._faults:
            least, most = self._pause_seconds if fault.moment == "any" else (0.0, 0.5)
            pause = self._draw.uniform(least, most)
            if not self._tasks.wait(fault.moment, self.stopped) or self.stopped.wait(pause):
                return
            for kind in fault.kinds:
                if (victim := self._victim(lambda kind=kind: self._tasks.victim(kind, self._draw))) is None:  # type: ignore[misc]
                    return
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                    self.killed.append(Killed(kind, victim, round(time.monotonic() - began, 2)))

    def _victim(self, find: Callable[[], int | None]) -> int | None:
        """Wait until there is a victim, None where the training ends before."""
        while (victim := find()) is None:
            if self.stopped.wait(0.05):
                return None
        return victim
