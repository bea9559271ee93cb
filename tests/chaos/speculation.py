"""A training of which Spark starts every task a second time while the first lives: `python -m tests.chaos.speculation FOLDER`.

Spark speculates on whatever runs for three seconds, on another host than the first attempt's: the workers of the cluster have
different addresses of this machine. Second attempts must wait. Then a worker is stopped for a moment, which changes nothing,
and another one until its second attempt has taken its place; when it goes on, nothing that it does may count.
Prints what was seen as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import xpsql
from tests.chaos.model import mistakes, write_log
from tests.chaos.spark import SETTINGS, statement
from tests.chaos.victims import Tasks
from tests.clusters.standalone import standalone
from tests.notes import Notes
from xpsql.platform.training.tasks.driver import Driver
from xpsql.platform.training.tasks.job import NextTurn, Take

SPECULATION = {
    "spark.executor.cores": "4",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "3s",
}
TASKS = {("shard", 0), ("shard", 1), ("worker", 0), ("worker", 1)}
STOP_SECONDS = 2.0
SECONDS = 120.0
LAST, LAST_SECONDS = 4, 50.0


@contextmanager
def lasting(stopper: threading.Thread) -> Iterator[None]:
    """Deal the last splits of trainings after a thread has ended."""
    take = Driver._take

    def taken_late(self: Driver, request: Take) -> NextTurn:
        if self._dealer.unfinished <= LAST:
            stopper.join(LAST_SECONDS)
        return take(self, request)

    with mock.patch.object(Driver, "_take", taken_late):
        yield


class Stopper(threading.Thread):
    """Stops workers and lets them go on.

    Attributes:
        seen: what happened, in order.
    """

    def __init__(self, tasks: Tasks) -> None:
        super().__init__(name="stopper", daemon=True)
        self.seen: list[str] = []
        self._tasks = tasks

    def run(self) -> None:
        if not self._until(lambda: all(self._tasks.attempts.get(who, 0) > 0 for who in TASKS)):
            return
        self._note("second attempts of all tasks wait", not any(self._tasks.accepted.values()))
        slow, stopped = self._tasks.process("worker", 1), self._tasks.process("worker", 0)
        os.kill(slow, signal.SIGSTOP)
        time.sleep(STOP_SECONDS)  # slow, not lost
        os.kill(slow, signal.SIGCONT)
        self._note("a slow worker keeps its place", not any(self._tasks.accepted.values()))
        os.kill(stopped, signal.SIGSTOP)
        replaced = self._until(lambda: self._tasks.accepted["worker", 0] > 0)
        os.kill(stopped, signal.SIGCONT)
        self._note("a stopped worker is replaced by its second attempt", replaced)

    def _until(self, holds: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + SECONDS
        while not holds() and time.monotonic() < deadline:
            time.sleep(0.05)
        return holds()

    def _note(self, what: str, holds: bool) -> None:
        if holds:
            self.seen.append(what)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--passes", type=int, default=40)
    parser.set_defaults(sync="asp", checkpoint_seconds=60)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    log, reporter, tasks = write_log(given.folder / "log.parquet", given.rows), Notes(), Tasks()
    stopper, conf, place = Stopper(tasks), {**SETTINGS, **SPECULATION}, given.folder / "warehouse"
    with (
        ExitStack() as stack,
        standalone(given.folder, cores=4) as master,
        xpsql.connect(place, engine="spark", master=master, conf=conf, reporter=reporter) as session,
    ):
        # Spark keeps the Python processes of a first training: tasks of the next one join before they are speculated on.
        session.sql(f"TRAIN MODEL warm USING xftrl WITH (workers = 4, shards = 4) AS SELECT * FROM parquet.`{log}`")
        stack.enter_context(tasks.watched())
        stack.enter_context(lasting(stopper))
        stopper.start()
        session.sql(statement(given, log))
        ended = not stopper.is_alive()
        wrong = mistakes(session, log, given.passes)
    print(json.dumps({"seen": stopper.seen, "ended": ended, "mistakes": wrong, "notes": reporter.notes}))


if __name__ == "__main__":
    main()
