"""Back-pressure: a shard whose rows approach their memory limit slows pushes down, sweeps, and at last refuses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ..errors import TrainingError
from .messages import Description

SLOWED, FULL = 0.85, 0.97
MOST_DELAY_SECONDS = 0.25
LOOK_SECONDS = 0.1
SWEEP_SECONDS = 10.0
MEBIBYTE = 1 << 20
ADVICE = "Use more shards, limit rows by the operators admit or expire, or grant more memory (spark.executor.memoryOverhead)."


class Pressure:
    """Looks at the memory of a shard's rows ten times a second.

    From 85% of the limit on, what may expire is swept out, at most every ten seconds, and pushes are delayed while memory still
    grows, the more the nearer the limit is, so that sweeps and a running checkpoint can keep up. At 97% a push fails,
    though it is applied: what the shard holds then is whole, and fit for a last checkpoint.

    Args:
        name: of the shard, for messages.
        limit_bytes: that its rows may take.
        describe: returns what the shard holds, read while no push is applied: one that grows a table writes its size in steps.
        sweep: removes every row that has ended.
        notify: called once when pushes are slowed, and with the reason when no more are accepted, before that push fails.
    """

    def __init__(
        self,
        name: str,
        limit_bytes: int,
        describe: Callable[[], Description],
        sweep: Callable[[], None],
        notify: Callable[[str, bool], None],
    ) -> None:
        self._name = name
        self._limit_bytes = limit_bytes
        self._describe = describe
        self._sweep = sweep
        self._notify = notify
        self._notified = False
        self._most = 0
        self._looked = self._swept = 0.0
        self._never = threading.Event()

    def ease(self) -> None:
        """Delay the acknowledgement of a push that is applied, where memory is short.

        Raises:
            TrainingError: no memory is left; says how much is used by what, and what to do.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked, used = now, self._describe().memory_bytes
        if used < SLOWED * self._limit_bytes or used <= self._most:
            return
        self._most = used
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            self._sweep()
        if used >= FULL * self._limit_bytes:
            error = TrainingError(f"{self._state()} There is room for no more rows. {ADVICE}")
            self._notify(str(error), True)
            raise error
        if not self._notified:
            self._notified = True
            self._notify(f"{self._state()} Its pushes are slowed while it grows. {ADVICE}", False)
        self._never.wait(MOST_DELAY_SECONDS * (used / self._limit_bytes - SLOWED) / (FULL - SLOWED))

    def _state(self) -> str:
        held = self._describe()
        used, limit = held.memory_bytes // MEBIBYTE, self._limit_bytes // MEBIBYTE
        return f"{self._name} holds {held.rows:,} rows in {used:,} of the {limit:,} MiB that it is granted."
