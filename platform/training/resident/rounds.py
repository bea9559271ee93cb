"""Resident training whose workers are tasks: it learns in rounds (micro-batches), each a separate training.

Tasks have shards on other machines, and start with each round: the previous version is loaded, what has arrived is learned, and
a new version is written. Everything else is as in resident.py: positions, gate, signals, RESUME.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ....warehouse.version import Version
from ...errors import TrainingError
from ...input.streams.base import StreamQuery
from ...input.streams.feed import Feed
from ..clauses.publish import PUBLISH, RETAIN, RETAINED
from ..plan import Plan
from ..segment import Segment, is_passed
from .announcer import Announcer, IncrementReporter
from .increment import ProgressLog

if TYPE_CHECKING:
    import pyarrow as pa

    from ....warehouse.draft import Draft
    from ....warehouse.entries import Split
    from ....warehouse.locks import Lock
    from ....warehouse.models import Models
    from ...engines.base import Engine

POLL_SECONDS = 0.1
ALL = 1 << 40


class RoundReporter(IncrementReporter):
    """The reporter of a round's monitor, which other processes see, too.

    Args:
        tell: publishes progress, given the examples of the round.
    """

    def __init__(self, announcer: Announcer, before: int, tell: Callable[[int], None]) -> None:
        super().__init__(announcer, before)
        self._publish = tell

    def update(self, examples: int, metrics: Mapping[str, float]) -> None:
        """Report progress."""
        self._publish(examples)
        super().update(examples, metrics)


class Rounds:
    """Learns what a feed gives in rounds.

    Args:
        parent: the version that the first round continues; None: a new model.
        feed: the stream, from where that version ended.
        models, lock: of the warehouse, and the model's.
        announcer: publishes progress, and receives requests to stop.
    """

    def __init__(
        self,
        plan: Plan,
        query: StreamQuery,
        engine: Engine,
        models: Models,
        lock: Lock,
        announcer: Announcer,
        feed: Feed,
        parent: Version | None,
    ) -> None:
        publish = plan.clause(PUBLISH)
        assert publish is not None
        self._plan, self._query, self._engine, self._every = plan, query, engine, publish
        self._models, self._lock, self._announcer, self._feed = models, lock, announcer, feed
        self._parent, self._learned = parent, 0
        self._began = -float("inf")
        self._rows, self._since = 0, 0.0  # of the round under way, and since when the first of them waits

    def resume(self, splits: Sequence[Split]) -> None:
        """Go on with the round that was interrupted, first of all.

        Args:
            splits: what it learns.
        """
        from .. import train

        plan, models = self._plan, self._models
        self._run(lambda reporter: train.resume(plan, self._engine, models, reporter, self._lock, self._lines), splits)

    def run(self) -> Version | None:
        """Learn until asked to stop, and then what has arrived by then; return the last version made, None where none was made.

        Raises:
            XpsqlError: what ended it; the versions that it made stay.
        """
        while True:
            stopping = self._announcer.stopping
            self._feed.look(stopping)
            if stopping or self._is_due():
                self._round()
            self._tell()
            if stopping:
                return self._parent if self._announcer.versions else None
            time.sleep(POLL_SECONDS)

    def _is_due(self) -> bool:
        rows = self._feed.waiting_rows
        if self._every.seconds is not None:
            return rows > 0 and time.monotonic() - self._began >= self._every.seconds
        return rows >= (self._every.examples or 0)

    def _round(self) -> None:
        """Learn all that has arrived, if anything has."""
        from .. import train

        before, stream, since = self._feed.position, self._feed.stream, self._feed.waiting_since
        splits = self._feed.take(ALL)
        if not splits or is_passed(stream, self._query, splits, self._parent, self._feed.position):
            return
        self._began = time.monotonic()
        segment = Segment(stream, stream.scan(self._query.query, splits), splits, before)
        plan = self._plan
        if self._parent is not None and self._parent.number != plan.parent:
            plan = replace(plan, parent=self._parent.number, replace=False)
        scan, engine, models = segment.scan, self._engine, self._models
        self._run(
            lambda reporter: train.train(plan, scan, engine, models, reporter, segment, self._lock, self._lines), splits, since
        )

    def _lines(self, draft: Draft) -> ProgressLog:
        """Return what adds to lines of progress how far it is behind."""
        log = ProgressLog(self._announcer.lag.values)
        log.write_to(draft.folder)
        return log

    def _run(self, learn: Callable[[RoundReporter], pa.Table], splits: Sequence[Split], since: float | None = None) -> None:
        """Run a round and adopt its version; the next round continues also a version that the gate holds."""
        announcer, began = self._announcer, time.monotonic()
        announcer.state = "learning"
        self._rows, self._since = sum(split.rows for split in splits), began if since is None else since
        self._tell()
        try:
            learn(RoundReporter(announcer, self._learned, self._tell))
        except TrainingError as error:
            if self._models.versions(self._plan.model)[-1].manifest.status != "held":
                raise
            announcer.note(f"{error} Learning continues.")
        made = self._models.versions(self._plan.model)[-1]
        self._parent = made
        self._learned += made.manifest.learned.examples
        self._rows = 0
        manifest, seconds = made.manifest, time.monotonic() - began
        learned = f"{manifest.learned.examples:,} examples"
        announcer.note(f"{manifest.model} v{made.number}: {learned}, learned by tasks and written in {seconds:.1f} s.")
        announcer.publish(made.number)
        announcer.state = "waiting"
        self._models.retain(self._plan.model, self._plan.clause(RETAIN) or RETAINED)

    def _tell(self, examples: int = 0) -> None:
        """Report progress.

        Args:
            examples: learned in the round under way.
        """
        lag, under_way = self._announcer.lag, max(0, self._rows - examples)
        lag.rows = under_way + self._feed.waiting_rows
        since = self._since if under_way else self._feed.waiting_since
        lag.seconds = 0.0 if since is None else time.monotonic() - since
        self._announcer.tell(self._learned + examples)
