"""Progress of a resident training for other processes, and requests to stop it: STOP MODEL, Ctrl-C, SIGTERM."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ....warehouse.trainings.resident import Residence, ResidentStatus
from ...errors import XpsqlError

if TYPE_CHECKING:
    from ...progress import Reporter

TELL_SECONDS = 1.0
RATE_SECONDS = 10.0
"""The period over which the speed is measured."""


class Lag:
    """How far a training is behind its stream: rows that have arrived and are not learned, and seconds."""

    def __init__(self) -> None:
        self.rows, self.seconds = 0, 0.0

    def values(self) -> dict[str, float]:
        """Return it as ML.TRAINING_INFO names it."""
        return {"lag_rows": self.rows, "lag_seconds": self.seconds}


class Announcer:
    """A resident training, as other processes see it.

    Args:
        residence: where progress is published.
        stream: what it learns from.
        reporter: of the session; called by one thread at a time.
    """

    def __init__(self, residence: Residence, stream: str, reporter: Reporter) -> None:
        self.lag = Lag()
        self.version: int | None = None
        self.published: float | None = None
        self.versions = 0
        self.state = "waiting"
        self._residence, self._reporter, self._stream = residence, reporter, stream
        self._training = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._told = self._looked = 0.0
        self._past: deque[tuple[float, int]] = deque()

    def note(self, message: str) -> None:
        """Say something worth knowing that is no error."""
        with self._lock:
            self._reporter.note(message)

    def start(self, title: str) -> None:
        """Begin to show progress."""
        with self._lock:
            self._reporter.start(title, None)

    def finish(self, message: str) -> None:
        """Show no more progress."""
        with self._lock:
            self._reporter.finish(message)

    def publish(self, number: int) -> None:
        """Note that a version is committed."""
        self.version, self.published, self._told = number, time.time(), 0.0
        self.versions += 1

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        """Show progress: the examples of all increments, metrics of the current one, and the lag."""
        more: dict[str, float] = {"lag_rows": self.lag.rows}
        if self.version is not None:
            more["version"] = self.version
        with self._lock:
            self._reporter.update(examples, {**metrics, **more})

    def of_increment(self, before: int) -> IncrementReporter:
        """Return the reporter for the monitor of an increment.

        Args:
            before: examples of the increments before.
        """
        return IncrementReporter(self, before)

    @property
    def stopping(self) -> bool:
        """Whether the training is to end."""
        if not self._stopping.is_set() and time.monotonic() - self._looked >= TELL_SECONDS / 4:
            self._looked = time.monotonic()
            if self._residence.asked(self._training):
                self._stopping.set()
        return self._stopping.is_set()

    def tell(self, examples: int) -> None:
        """Publish the training's progress once a second.

        Args:
            examples: learned since it began.
        """
        now = time.monotonic()
        if now - self._told < TELL_SECONDS:
            return
        self._told = now
        self._past.append((now, examples))
        while now - self._past[0][0] > RATE_SECONDS:
            self._past.popleft()
        began, before = self._past[0]
        rate = (examples - before) / max(now - began, TELL_SECONDS)
        try:
            self._residence.tell(
                ResidentStatus(
                    self._training,
                    os.getpid(),
                    socket.gethostname(),
                    self._stream,
                    "stopping" if self._stopping.is_set() else self.state,
                    self.version,
                    self.published,
                    self.versions,
                    examples,
                    rate,
                    self.lag.rows,
                    self.lag.seconds,
                    time.time(),
                )
            )
        except XpsqlError as error:  # a full disk; the training need not end for it
            self.note(f"Others cannot see how far the training is: {error}")

    @contextmanager
    def here(self) -> Iterator[None]:
        """Be visible and handle signals for the length of a block: the first signal lets the training end in order."""
        with stopped_by_signals(self._stop):
            try:
                yield
            finally:
                self._residence.leave()

    def _stop(self) -> None:
        self._stopping.set()


class IncrementReporter:
    """The reporter of an increment's monitor; see Reporter."""

    def __init__(self, announcer: Announcer, before: int) -> None:
        self._announcer, self._before = announcer, before
        self.over = False

    def start(self, title: str, total_examples: int | None) -> None:
        """Nothing: the training has begun."""

    def go_on(self, examples: int) -> None:
        """Nothing: examples before an interruption count for the version."""

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        """Report progress, unless a later increment does."""
        if not self.over:
            self._announcer.update(self._before + examples, metrics)

    def finish(self, message: str) -> None:
        """Nothing: the training goes on."""

    def note(self, message: str) -> None:
        """Say something worth knowing."""
        self._announcer.note(message)


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call a function at Ctrl-C or SIGTERM in place of what they do; at the second one they do it.

    Signals come to the main thread alone: in another one they are left as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}

    def restore() -> None:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)

    def handle(number: int, frame: object) -> None:
        restore()
        stop()

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
