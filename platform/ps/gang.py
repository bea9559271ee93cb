"""Workers in step with each other (bsp): a shard holds a step until all of them have pushed."""

from __future__ import annotations

import threading

from ..errors import TrainingError
from .shard import Description, Pulled, Push, Shard
from .table import Keys
from .watermarks import Entry

STEP_SECONDS = 600.0


class Gang:
    """A shard for workers that make their steps together.

    A push returns when every worker that is still at work has pushed, and the pushes of the step are applied in the order of
    the workers' numbers. So what the pulls of the next step see, and the model, do not depend on timing.

    Args:
        shard: what is pulled from and pushed to.
        num_workers: numbered from 0; each pushes once a step until it leaves.
    """

    def __init__(self, shard: Shard, num_workers: int) -> None:
        self._shard = shard
        self._at_work = set(range(num_workers))
        self._waiting: dict[int, Push] = {}
        self._step = 0
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def pull(self, keys: Keys, size: int) -> Pulled:
        """See Shard."""
        return self._shard.pull(keys, size)

    def push(self, push: Push) -> None:
        """See Shard; returns when the step of all workers is applied.

        Raises:
            TrainingError: the push of one of them failed, or did not come within ten minutes; names who is missing.
        """
        with self._changed:
            self._waiting[push.worker] = push
            step = self._step
            self._apply_if_complete()
            if not self._changed.wait_for(lambda: self._step > step or self._error is not None, STEP_SECONDS):
                missing = ", ".join(str(number) for number in sorted(self._at_work - self._waiting.keys()))
                raise TrainingError(f"Worker {push.worker} waited {STEP_SECONDS:.0f} s for the step of worker {missing}.")
            if self._error is not None:
                raise self._error

    def leave(self, worker: int) -> None:
        """Take a worker that has no more batches out of the steps to come."""
        with self._changed:
            self._at_work.discard(worker)
            self._apply_if_complete()

    def describe(self) -> Description:
        """See Shard."""
        return self._shard.describe()

    def progress(self) -> tuple[Entry, ...]:
        """See Shard."""
        return self._shard.progress()

    def _apply_if_complete(self) -> None:
        if self._at_work - self._waiting.keys() or not self._waiting or self._error is not None:
            return
        try:
            for worker in sorted(self._waiting):
                self._shard.push(self._waiting[worker])
        except BaseException as error:
            self._error = error
        self._waiting = {}
        self._step += 1
        self._changed.notify_all()
