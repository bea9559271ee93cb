"""Taking checkpoints during a training: when, full or incremental, and what happens to one that fails."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from ....warehouse.trainings.checkpoints import DRIVER, Checkpoint, CheckpointPart, Checkpoints, name_of
from ...errors import CheckpointError, XpsqlError
from .driver_state import DRIVER_STATE, DriverState
from .files import write_message

MOST_LINKS = 16


class CheckpointContents(NamedTuple):
    """What all shards wrote, each as of one moment, and how far the training was by then."""

    parts: list[CheckpointPart]
    driver: DriverState


class Taker(Protocol):
    """Lets the shards of a training write."""

    def take(self, folder: str, full: bool) -> CheckpointContents:
        """Let every shard write into a checkpoint's folder while it goes on, and return when all have.

        Args:
            full: all rows; else those that changed since the last call, where a shard knows them.

        Raises:
            XpsqlError: one could not.
        """
        ...

    def cancel(self) -> None:
        """Let a `take` under way end soon, by an error."""
        ...


class Checkpointer:
    """Takes a checkpoint every so many seconds in a thread of its own; a context manager.

    One that fails (a full disk) is reported and removed, and the training goes on: the one before it is still there. After a
    full checkpoint come incremental ones, until they are together as large as the full one.

    A training that is interrupted (Ctrl-C, SIGTERM) gets a last one.

    Args:
        checkpoints: where they go.
        epoch: of this driver.
        seconds: between the end of one checkpoint and the start of the next; 0: none is taken automatically.
        taker: of the training's shards.
        note: called with what fails.
    """

    def __init__(self, checkpoints: Checkpoints, epoch: int, seconds: float, taker: Taker, note: Callable[[str], None]) -> None:
        self._checkpoints = checkpoints
        self._epoch = epoch
        self._seconds = seconds
        self._taker = taker
        self._note = note
        self._number = 0
        self._chain: list[Checkpoint] = []
        self._error: BaseException | None = None
        self._busy = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="xpsql-checkpoints", daemon=True)

    def __enter__(self) -> Self:
        if self._seconds:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        while self._thread.is_alive():  # the flag may be set between two checks
            self._taker.cancel()
            self._thread.join(0.1)
        if isinstance(error, KeyboardInterrupt) and self._seconds:
            self._take_last()
        if self._error is not None and error is None:
            raise self._error
        if self._error is not None:
            self._note(f"Checkpoints had ended before: {type(self._error).__name__}: {self._error}")

    def _take_last(self) -> None:
        """Take a checkpoint of a training that is interrupted; another Ctrl-C leaves it."""
        self._note("Interrupted: a last checkpoint is taken. Interrupt again to leave without it.")
        try:
            self._note(f"The checkpoint has {self.take().examples:,} examples.")
        except XpsqlError as failed:
            self._note(f"The last checkpoint failed: {failed}")

    def take_if_any(self) -> None:
        """Take a checkpoint now, unless none are taken."""
        if self._seconds:
            self.take()

    @contextlib.contextmanager
    def between(self) -> Iterator[None]:
        """Take no checkpoint during a block; one under way is waited for."""
        with self._busy:
            yield

    def take(self) -> Checkpoint:
        """Take a checkpoint now.

        Raises:
            XpsqlError: it could not be written; its partial files are removed.
        """
        with self._busy:
            self._number += 1
            name = name_of(self._epoch, self._number)
            try:
                checkpoint = self._written(name)
                self._checkpoints.commit(checkpoint)
            except BaseException:
                self._chain = []
                with contextlib.suppress(XpsqlError):  # the disk that failed; the next commit removes it
                    self._checkpoints.remove(name)
                raise
            self._chain = [*self._chain, checkpoint] if checkpoint.after else [checkpoint]
            return checkpoint

    def _written(self, name: str) -> Checkpoint:
        taken = self._taker.take(name, self._full_is_due())
        full = all(part.full for part in taken.parts)
        driver = write_message(self._checkpoints.place, f"{name}/{DRIVER}", DRIVER_STATE, taken.driver)
        after = () if full else tuple(before.name for before in self._chain)
        if not full and not after:
            raise CheckpointError(f"{name} is incremental, and there is none before it")
        return Checkpoint(self._epoch, self._number, after, tuple(taken.parts), driver, taken.driver.examples)

    def _full_is_due(self) -> bool:
        if not self._chain:
            return True
        first, *after = self._chain
        return len(self._chain) >= MOST_LINKS or sum(one.size for one in after) >= first.size

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                self.take()
            except XpsqlError as error:
                if not self._ended.is_set():
                    self._note(
                        f"The checkpoint failed: {str(error).rstrip('.')}. The training continues; the next one is tried in "
                        f"{self._seconds:g} s."
                    )
            except BaseException as error:  # raised where the training ends
                self._error = error
                return
