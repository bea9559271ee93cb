"""The work on batches: pull, compute, push; with one worker, with several that do not wait, and as a gang."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import TrainingError
from ..ps.client import Client
from ..ps.shard import Pulled, Push
from ..ps.table import Touched
from .ahead import Ahead
from .batches import Batch
from .scaling import Scaler
from .step import Learned, Step, inputs_of

AHEAD = 8
SSP_WAIT_SECONDS = 600.0


Batches = Callable[[], Generator[Batch, None, None]]
Done = Callable[[Batch, NDArray[np.float32]], None]


class Computed(NamedTuple):
    """A batch with what its step made of it."""

    batch: Batch
    pulled: Pulled
    learned: Learned


class Worker:
    """Learns from batches.

    Args:
        client: reaches the shards.
        step: the jitted step of the algorithm.
        scaler: statistics of continuous slots, shared by all workers.
        done: called after each batch that has been pushed, with its predictions float32[examples].
        returned: the tables whose pulled weights a push brings back.
    """

    def __init__(self, client: Client, step: Step, scaler: Scaler, done: Done, returned: Sequence[str]) -> None:
        self._client = client
        self._scaler = scaler
        self._done = done
        self._step = step
        self._returned = returned

    def pull(self, batch: Batch) -> tuple[Batch, Pulled]:
        self._scaler.learn(batch.dense)
        return batch, self._client.pull(batch.keys, batch.size)

    def compute(self, batch: Batch, pulled: Pulled) -> Computed:
        dense = self._scaler.scale(batch.dense, batch.scalar.shape[1] if len(batch.scalar) else len(batch.weight))
        return Computed(batch, pulled, self._step({**pulled.weights, **pulled.dense}, inputs_of(batch, dense)))

    def push(self, computed: Computed) -> None:
        batch, pulled, learned = computed
        gradients = {name: np.asarray(values) for name, values in learned.gradients.items()}
        positives = int(np.count_nonzero(batch.label[0, : batch.examples] > 0))
        arrays = (batch.keys, batch.slots, batch.counts, batch.clicks)
        touched = Touched(*arrays, batch.time_seconds, batch.id, batch.examples, positives)
        weights = {name: pulled.weights[name] for name in self._returned}
        self._client.push(Push(touched, pulled.updates, gradients, weights, learned.dense))
        self._done(batch, np.asarray(learned.predictions)[: batch.examples, 0])

    def learn(self, batches: Iterable[Batch]) -> None:
        """Learn from batches one after the other."""
        for batch in batches:
            self.push(self.compute(*self.pull(batch)))


def run_gang(worker: Worker, batches: Batches, size: int) -> None:
    """Learn in steps of `size` batches: all pull, all compute, then all push in order; timing changes nothing (bsp).

    With size 1 this is one worker.
    """
    with Ahead(batches, AHEAD) as ahead:
        while gang := list(itertools.islice(ahead, size)):
            pulled = [worker.pull(batch) for batch in gang]
            for computed in [worker.compute(*one) for one in pulled]:
                worker.push(computed)


def run_free(workers: Sequence[Worker], batches: Batches, pace: Pace) -> None:
    """Learn with a thread per worker (asp, ssp); `batches` is called once by each and yields that worker's own.

    The first error stops all and is raised.
    """
    stopped = threading.Event()

    def run(number: int) -> None:
        try:
            with Ahead(batches, AHEAD) as ahead:
                for batch in ahead:
                    if stopped.is_set():
                        return
                    pace.wait(number, stopped)
                    workers[number].learn((batch,))
                    pace.step(number)
        except BaseException:
            stopped.set()
            raise
        finally:
            pace.leave(number)

    with ThreadPoolExecutor(len(workers), thread_name_prefix="xpsql-worker") as pool:
        futures = [pool.submit(run, number) for number in range(len(workers))]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stopped.set()
            raise


class Pace:
    """Keeps workers within `slack` steps of the slowest one still at work (ssp); None lets them run (asp).

    Source: Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, NeurIPS 2013.
    """

    def __init__(self, num_workers: int, slack: int | None) -> None:
        self._steps: dict[int, int] = dict.fromkeys(range(num_workers), 0)
        self._slack = slack
        self._changed = threading.Condition()

    def wait(self, worker: int, stopped: threading.Event) -> None:
        """Wait until the worker may take its next step.

        Raises:
            TrainingError: another worker has made no step for ten minutes; names it.
        """
        if self._slack is None:
            return
        slack = self._slack
        with self._changed:
            free = self._changed.wait_for(
                lambda: stopped.is_set() or self._steps[worker] - min(self._steps.values()) <= slack, SSP_WAIT_SECONDS
            )
            if not free:
                slowest = min(self._steps, key=lambda number: self._steps[number])
                raise TrainingError(
                    f"Worker {worker} waited {SSP_WAIT_SECONDS:.0f} s for worker {slowest}, which made no step."
                )

    def step(self, worker: int) -> None:
        """Count a step of a worker."""
        with self._changed:
            self._steps[worker] += 1
            self._changed.notify_all()

    def leave(self, worker: int) -> None:
        """Take a worker that has no more batches, or has failed, out of the count."""
        with self._changed:
            del self._steps[worker]
            self._changed.notify_all()
