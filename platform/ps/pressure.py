"""What a shard does as its process comes near the memory that it is granted: it slows down, sweeps, and then says no."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ..errors import TrainingError

SLOWED, FULL = 0.85, 0.97
MOST_DELAY_SECONDS = 0.25
LOOK_SECONDS = 0.1
SWEEP_SECONDS = 10.0
MEBIBYTE = 1 << 20
STATM = Path("/proc/self/statm")


class Pressure:
    """Looks at the memory of this process ten times a second.

        From 85% of the limit on, what may expire is swept out, at most every ten seconds, and pushes are delayed, the more the
    nearer the limit is, so that sweeps and a checkpoint under way get ahead of them. At 97% a push fails, though it is
    applied: what the shard holds then is whole, and fit for a last checkpoint.

    Args:
            name: of the shard, for messages.
            limit_bytes: that the process may use.
            sweep: removes every row that has ended.
            rows: how many rows there are.
            told: told once that pushes are slowed; and why there will be no more, before that push fails.
            used: returns the bytes that the process uses.
    """

    def __init__(
        self,
        name: str,
        limit_bytes: int,
        sweep: Callable[[], None],
        rows: Callable[[], int],
        told: Callable[[str, bool], None],
        used: Callable[[], int] | None = None,
    ) -> None:
        self._name = name
        self._limit_bytes = limit_bytes
        self._sweep = sweep
        self._rows = rows
        self._tell = told
        self._used = used or process_bytes
        self._told = False
        self._looked = self._swept = 0.0
        self._never = threading.Event()

    def ease(self) -> None:
        """Delay the acknowledgement of a push that is applied, where memory is short.

        Raises:
            TrainingError: there is none left; says how much is used by what, and what to do.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        share = self._used() / self._limit_bytes
        if share < SLOWED:
            return
        if now - self._swept >= SWEEP_SECONDS:
            self._swept = now
            self._sweep()
            share = self._used() / self._limit_bytes
        if share < SLOWED:
            return
        if share >= FULL:
            error = TrainingError(f"{self._state()} There is room for no more rows. {ADVICE}")
            self._tell(str(error), True)
            raise error
        if not self._told:
            self._told = True
            self._tell(f"{self._state()} Its pushes are slowed. {ADVICE}", False)
        self._never.wait(MOST_DELAY_SECONDS * (share - SLOWED) / (FULL - SLOWED))

    def _state(self) -> str:
        used, limit = self._used() // MEBIBYTE, self._limit_bytes // MEBIBYTE
        return f"{self._name} holds {self._rows():,} rows and uses {used:,} of the {limit:,} MiB that it is granted."


ADVICE = "Use more shards, let rows be admitted or expire (OPERATORS), or grant more memory (spark.executor.memoryOverhead)."


def process_bytes() -> int:
    """Return the memory that this process uses; where the system does not tell, the most that it has used."""
    if STATM.exists():
        return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
