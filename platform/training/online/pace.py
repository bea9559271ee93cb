"""The pace (SSP clock): how far workers may be ahead of each other, and holding them between two steps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import CheckpointError, TrainingError
from ...ps.gang import HeldUp

HELD_UP_SECONDS = 5.0
WAIT_SECONDS = 600.0
HOLD_SECONDS = 60.0


class Pace:
    """Keeps workers within `slack` steps of the slowest one still at work; None lets them run (asp).

    Source: Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, NeurIPS 2013.

    Args:
        held_up: called with the workers (stragglers) that others wait for, and how long, once for each step that takes so long.
        together: steps wait for each other (bsp), so whoever has begun one needs the others in it.
        most: steps of all workers, after which they must stop; None: they go on to the end.
    """

    def __init__(
        self, num_workers: int, slack: int | None, held_up: HeldUp, together: bool = False, most: int | None = None
    ) -> None:
        self._workers = range(num_workers)
        self._begun: dict[int, int] = dict.fromkeys(self._workers, 0)
        self._under_way: dict[int, int] = {}
        self._slack = slack
        self._held_up = held_up
        self._told = -1
        self._last: int | None = None
        self._together = together
        self._left = most
        self._stopped: int | None = None  # the last step that is made
        self._failed = False
        self._changed = threading.Condition()

    def begin(self) -> None:
        """Let all workers begin again, after all have left, and not while they are held."""
        with self._changed:
            self._changed.wait_for(lambda: self._last is None, WAIT_SECONDS)
            self._begun, self._under_way, self._told = dict.fromkeys(self._workers, 0), {}, -1

    def step(self, worker: int) -> bool:
        """Wait until a worker, which has finished its step before, may begin the next one; False if it must stop instead.

        Raises:
            TrainingError: another worker has made no step for ten minutes; names it.
        """
        with self._changed:
            self._under_way.pop(worker, None)
            behind = min(self._begun.values(), default=0)
            self._begun[worker] = self._begun.get(worker, behind) + 1  # one that was lost comes back with the slowest
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._may_step(worker), HELD_UP_SECONDS):
                self._tell()
            if not self._changed.wait_for(lambda: self._may_step(worker), WAIT_SECONDS):
                waited, slowest = HELD_UP_SECONDS + WAIT_SECONDS, self._slowest()[0]
                raise TrainingError(f"Worker {worker} waited {waited:.0f} s for worker {slowest}, which made no step.")
            if self._left == 0:
                return False
            self._under_way[worker] = self._begun[worker]
            if self._left is not None:
                self._left -= 1
            return self._stopped is None or self._begun[worker] <= self._stopped

    @property
    def over(self) -> bool:
        """Whether all steps are made that were to be."""
        return self._left == 0

    def _tell(self) -> None:
        """Report stragglers, once for each step."""
        least = min(self._begun.values())
        if least > self._told:
            self._told = least
            self._held_up(self._slowest(), HELD_UP_SECONDS)

    def _slowest(self) -> list[int]:
        least = min(self._begun.values())
        return [number for number, begun in sorted(self._begun.items()) if begun == least]

    def done(self, worker: int) -> None:
        """Note that a worker's step is over, before it waits for its next batch."""
        with self._changed:
            if self._under_way.pop(worker, None) is not None:
                self._changed.notify_all()

    def leave(self, worker: int) -> None:
        """Take a worker that has no more batches, or has failed, out of the count."""
        with self._changed:
            self._begun.pop(worker, None)
            self._under_way.pop(worker, None)
            self._changed.notify_all()

    def stop(self) -> None:
        """Let no worker begin another step; with bsp all of them finish the one that the furthest has begun."""
        with self._changed:
            if self._stopped is None:
                self._stopped = self._furthest()
            self._changed.notify_all()

    def fail(self) -> None:
        """Let no worker begin another step, nor be held: one has failed, and the others may have continued without it."""
        with self._changed:
            self._stopped, self._failed = 0, True
            self._changed.notify_all()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold all workers between two steps for the length of a block; with bsp after the one that the furthest has begun.

        Raises:
            CheckpointError: a worker has been in its step for a minute, which is named, or has failed.
        """
        with self._changed:
            self._last = self._furthest()
            try:
                if not self._changed.wait_for(lambda: self._failed or self._all_stand(), HOLD_SECONDS):
                    busy = ", ".join(map(str, sorted(self._under_way)))
                    raise CheckpointError(f"worker {busy} has been in its step for {HOLD_SECONDS:.0f} s")
                if self._failed:
                    raise CheckpointError("a worker has failed")
                yield
            finally:
                self._last = None
                self._changed.notify_all()

    def _furthest(self) -> int:
        """Return the last step to make with bsp before all stand; without it they may stand anywhere."""
        if not self._together:
            return 0
        # Where no step is under way, whoever waits has begun one more than it finished, and so have all.
        return max(self._under_way.values(), default=min(self._begun.values(), default=1) - 1)

    def _all_stand(self) -> bool:
        assert self._last is not None  # while they are held
        return not self._under_way and all(begun >= self._last for begun in self._begun.values())

    def _may_step(self, worker: int) -> bool:
        if self._stopped is not None:
            return True
        if self._last is not None and self._begun[worker] > self._last:
            return False
        # Steps begun are finished but for the last: a worker that begins its first is as far as one that has not yet begun.
        slowest = max(min(self._begun.values()), 1)
        return self._slack is None or self._begun[worker] - slowest <= self._slack
