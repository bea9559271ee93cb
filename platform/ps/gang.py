"""A barrier group (gang) of workers for sync = 'bsp' and 'hybrid': a shard holds a step until all of them have pushed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..errors import LostError, TrainingError
from .messages import Description, Keys, Pulled, Push
from .networks.network_messages import OutputsAsked, OutputsMade
from .networks.runs import NetworkRuns
from .shard import Shard
from .watermarks import RunRecord

HELD_UP_SECONDS = 5.0
STEP_SECONDS = 600.0
STAND_SECONDS = 60.0
ANSWER_SECONDS = HELD_UP_SECONDS + STEP_SECONDS + 60.0
"""How long a worker should wait for the answer to its push: until the gang itself has reported who is missing."""

HeldUp = Callable[[Sequence[int], float], None]


def own_shard(shard: Shard | Gang) -> Shard:
    """Return a shard without the gang around it."""
    return shard.shard if isinstance(shard, Gang) else shard


class Gang:
    """A shard for workers that step together, behind a barrier.

    A push returns when every worker that is still at work has pushed, and the pushes of the step are applied in the order of
    the workers' numbers. So what the pulls of the next step see, and the model, do not depend on timing.

    Args:
        shard: what is pulled from and pushed to.
        num_workers: numbered from 0; each pushes once a step until it leaves.
        held_up: called with the workers (stragglers) that the others wait for, and how long, once for each step that takes so
            long.
        hybrid: rows change as each push comes; only dense parameters wait for the step, and change once, by the mean gradient
            of its examples, as by an all-reduce.
        networks: over vectors with ids, which the shard runs: all workers' pulls of a step are answered at once, and their
            pushes change the parameters once, as hybrid does; None: workers run them.

    Attributes:
        shard, networks: as given.
    """

    def __init__(
        self, shard: Shard, num_workers: int, held_up: HeldUp, hybrid: bool = False, networks: NetworkRuns | None = None
    ) -> None:
        self.shard, self.networks = shard, networks
        self._held_up = held_up
        self._hybrid = hybrid
        self._told = -1
        self._workers = range(num_workers)
        self._at_work = set(self._workers)
        self._waiting: dict[int, Push] = {}
        self._asking: dict[int, OutputsAsked] = {}
        self._made: dict[int, OutputsMade] = {}
        self._step = 0
        self._last: int | None = None
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def pull(self, keys: Keys, size: int) -> Pulled:
        """See Shard."""
        return self.shard.pull(keys, size)

    def outputs(self, asked: OutputsAsked) -> OutputsMade:
        """Return what networks make of vectors, when every worker that is still at work has asked; at once where a batch is
        only scored.

        Raises:
            TrainingError: the request of one of them failed, or did not come within ten minutes.
        """
        assert self.networks is not None
        if asked.alone:
            return OutputsMade(*self.networks.outputs([asked]))
        with self._changed:
            self._begin_round()
            self._asking[asked.worker] = asked
            self._answer_if_all_asked()
            if not self._changed.wait_for(lambda: asked.worker in self._made or self._error is not None, STEP_SECONDS):
                names = ", ".join(map(str, sorted(self._at_work - self._asking.keys())))
                raise TrainingError(f"Worker {asked.worker} waited {STEP_SECONDS:.0f} s for worker {names} to ask for vectors.")
            self._require_whole()
            return self._made.pop(asked.worker)

    def _answer_if_all_asked(self) -> None:
        if not self._asking or self._at_work - self._asking.keys() or self._error is not None:
            return
        assert self.networks is not None
        try:
            workers = sorted(self._asking)
            made = self.networks.outputs([self._asking[worker] for worker in workers])
            self._made |= {worker: OutputsMade(own) for worker, own in zip(workers, made, strict=True)}
        except BaseException as error:
            self._error = error
        self._asking = {}
        self._changed.notify_all()

    def push(self, push: Push) -> None:
        """See Shard; returns when the step of all workers is applied.

        Raises:
            TrainingError: the push of one of them failed, or did not come within ten minutes; names who is missing. Or a worker
                has another number.
        """
        if push.worker not in self._workers:
            raise TrainingError(f"Expected a push of a worker from 0 to {len(self._workers) - 1}, got one of {push.worker}.")
        with self._changed:
            self._begin_round()
            if self._hybrid:
                self._wait_while_held(push.worker)
                push = self.shard.push(push, dense=False)
            self._waiting[push.worker] = push
            step = self._step
            self._apply_if_complete()
            done = self._changed.wait_for(lambda: self._over(step), HELD_UP_SECONDS)
            first, self._told = not done and step > self._told, self._told if done else max(step, self._told)
            missing = self._missing()
        if first and missing:
            self._held_up(missing, HELD_UP_SECONDS)
        with self._changed:
            if not self._changed.wait_for(lambda: self._over(step), STEP_SECONDS):
                names = ", ".join(map(str, self._missing()))
                waited, awaited = (
                    HELD_UP_SECONDS + STEP_SECONDS,
                    f"the step of worker {names}" if names else "a checkpoint to begin",
                )
                raise TrainingError(f"Worker {push.worker} waited {waited:.0f} s for {awaited}.")
            self._require_whole()

    def _wait_while_held(self, worker: int) -> None:
        """Let no row change after the step that a checkpoint is to be of."""
        if not self._changed.wait_for(lambda: not self._held or self._error is not None, STEP_SECONDS):
            raise TrainingError(f"Worker {worker} waited {STEP_SECONDS:.0f} s for a checkpoint to begin.")
        self._require_whole()

    def _require_whole(self) -> None:
        """Raise what has ended the steps: rows may have a part of the last one."""
        if self._error is not None:
            raise self._error

    def _missing(self) -> list[int]:
        """Return the workers whose pushes the step lacks."""
        return sorted(self._at_work - self._waiting.keys())

    def _over(self, step: int) -> bool:
        return self._step > step or self._error is not None

    def leave(self, worker: int) -> None:
        """Take a worker that has no more batches out of the steps to come.

        When all have left, another round may begin, with all of them again.
        """
        with self._changed:
            self._begin_round()
            self._at_work.discard(worker)
            self._apply_if_complete()
            self._answer_if_all_asked()

    def _begin_round(self) -> None:
        if not self._at_work:
            self._at_work = set(self._workers)

    def hold(self) -> int:
        """Apply no further step until `standing` names the last one or `release` is called; return how many are applied.

        A step that one shard has applied has been pushed to all shards, so all can stop at the furthest shard's step. With
        hybrid a step counts as soon as it has changed rows: its workers push to all shards.
        """
        with self._changed:
            self._last = self._step + bool(self._hybrid and self._waiting)
            return self._last

    @contextmanager
    def standing(self, at: int) -> Iterator[None]:
        """Hold the gang after `at` steps for the length of a block; then it goes on.

        Raises:
            TrainingError: it has not reached that step within a minute, or the push of a worker failed.
            LostError: it has ended.
        """
        with self._changed:
            self._last = at
            self._apply_if_complete()
            self._changed.notify_all()
            try:
                if not self._changed.wait_for(lambda: self._step >= at or self._error is not None, STAND_SECONDS):
                    raise TrainingError(f"Expected {at} steps within {STAND_SECONDS:.0f} s, got {self._step}.")
                if self.networks is not None:
                    self.networks.steps.wait(at, STAND_SECONDS)
                self._require_whole()
                yield
            finally:
                self.release()

    def release(self) -> None:
        """Let a gang that was held go on."""
        with self._changed:
            self._last = None
            self._apply_if_complete()
            self._changed.notify_all()

    def pull_dense(self) -> Pulled:
        """See Shard."""
        return self.shard.pull_dense()

    def end(self) -> None:
        """Wake all waiting workers: there will be no further step."""
        if self.networks is not None:
            self.networks.end()
        with self._changed:
            self._error = self._error or LostError("The shard ends.")
            self._changed.notify_all()

    def describe(self) -> Description:
        """See Shard."""
        return self.shard.describe()

    def progress(self) -> tuple[RunRecord, ...]:
        """See Shard."""
        return self.shard.progress()

    @property
    def _held(self) -> bool:
        return self._last is not None and self._step >= self._last

    def _apply_if_complete(self) -> None:
        if self._held or self._missing() or not self._waiting or self._error is not None:
            return
        try:
            pushes = [self._waiting[worker] for worker in sorted(self._waiting)]
            if self._hybrid:
                self.shard.step(pushes)
            else:
                for push in pushes:
                    self.shard.push(push)
            if self.networks is not None:
                self.networks.learn(pushes)
        except BaseException as error:
            self._error = error
        self._waiting = {}
        self._step += 1
        self._changed.notify_all()
