"""Trainings in processes of their own, which are killed with kill -9 at random moments."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import xpsql
from tests.forkserver import CONTEXT, everything
from xpsql.platform.errors import TrainingError
from xpsql.platform.progress import SilentReporter

Moment = Literal["connected", "begun", "known"]


class Training:
    """Statements in a process of their own.

    Args:
        moment: what it tells first: that it can begin (connected), is about to learn (begun), or that its metrics are known.
    """

    def __init__(self, warehouse: Path, statements: Sequence[str], moment: Moment) -> None:
        self._reported, tell = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(target=train, args=(tell, warehouse, statements, moment))
        self._process.start()
        tell.close()
        assert self._reported.recv() == moment

    def killed(self, chance: random.Random, within_seconds: float) -> list[tuple[str, float]]:
        """Kill it at a random moment after the one that it has reported; one that has ended by then is fine.

        Returns:
            Of each statement that it had ended, how, and how many seconds after the moment.

        Raises:
            AssertionError: it failed by itself.
        """
        time.sleep(chance.uniform(0, within_seconds))
        self._process.kill()
        return self.ended()

    def ended(self) -> list[tuple[str, float]]:
        """Wait for its end; returns and raises as `killed`."""
        self._process.join()
        assert self._process.exitcode in (0, -9)
        return everything(self._reported)


class Telling(SilentReporter):
    """Tells a moment, once."""

    def __init__(self, tell: Connection, moment: Moment) -> None:
        self._tell = tell
        self._moment = moment
        self.at: float | None = None

    def start(self, title: str, total_examples: int | None) -> None:
        self.reached("begun")

    def finish(self, message: str) -> None:
        self.reached("known")

    def reached(self, moment: Moment) -> None:
        """Tell the moment if it is the one."""
        if moment == self._moment and self.at is None:
            self.at = time.monotonic()
            self._tell.send(moment)


def train(tell: Connection, warehouse: Path, statements: Sequence[str], moment: Moment) -> None:
    """Run statements one after the other, and tell of each whether its version is held; what others answer is `ready`."""
    reporter = Telling(tell, moment)
    with xpsql.connect(warehouse, "duckdb", reporter) as session:
        session.sql("SELECT 1")
        reporter.reached("connected")
        for statement in statements:
            status = "ready"
            try:
                session.sql(statement)
            except TrainingError as error:
                if "is held, not served" not in str(error):
                    raise
                status = "held"
            tell.send((status, time.monotonic() - (reporter.at or 0.0)))
