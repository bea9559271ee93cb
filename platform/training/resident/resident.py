"""Resident (continuous) training: it learns what arrives in a stream and publishes a version every so often, until it is asked
to stop.

Workers, threads of this process, learn without a pause from one increment after the other (increment.py). At the end of an
increment they wait for each other (a barrier), and snapshots of the shards are taken, in milliseconds; then they go on, while a
thread copies the snapshots, writes the version and commits it. So a version has exactly what its position says. The version of
the next increment is begun when that thread is done; what is learned until then is in memory alone, and a training that
continues the committed version has not learned it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ....warehouse.entries import Split
from ....warehouse.trainings.segments import write_passed
from ....warehouse.version import Version
from ...input.streams.feed import Feed
from ...input.streams.segment_scan import SegmentScan
from ...ps.client import LocalClient
from ...ps.placement import slices_of
from ...ps.watermarks import Watermarks
from ..checkpoints.checkpointer import Checkpointer
from ..checkpoints.driver_state import DriverState
from ..clauses.column_roles import TIME
from ..clauses.evaluate import EVALUATE
from ..clauses.publish import PUBLISH, RETAIN, RETAINED
from ..online.local import Beside, begin_here
from ..prepared import Prepared
from ..record import recorded
from ..row_files.saved import total
from ..segment import Segment
from ..train import manifest_of
from .announcer import Announcer
from .compaction import Compactor
from .increment import Increment
from .publication import Moment, Publisher
from .workers import ResidentWorkers, promptly

if TYPE_CHECKING:
    from ....warehouse.draft import Draft
    from ....warehouse.locks import Lock
    from ....warehouse.models import Models
    from ...input.streams.base import Position

FEED_SECONDS = 0.05
AHEAD_ROWS = 1 << 14
"""How many rows wait for each worker, in one split at least, beside those that it reads: as many as it learns while a stream is
asked what has arrived."""


class Resident:
    """Learns what a feed gives, and publishes it.

    Args:
        prepared: the training; its splits, if any, come from an interrupted version.
        feed: the stream, from where those end.
        models, lock: of the warehouse, and the model's.
        announcer: publishes progress, and receives requests to stop.
        notes: a folder for the records of increments; see Increment.
        epoch: of the first increment.
    """

    def __init__(
        self, prepared: Prepared, feed: Feed, models: Models, lock: Lock, announcer: Announcer, notes: Path, epoch: int
    ) -> None:
        publish = prepared.plan.clause(PUBLISH)
        assert publish is not None
        self._plan, self._publish_every = prepared.plan, publish
        self._feed, self._models, self._lock, self._announcer, self._notes = feed, models, lock, announcer, notes
        self._parent = prepared.parent
        self._learned = 0
        self._increments: list[Increment] = []
        self._prepared = replace(prepared, segment=None)
        self._increment = self._follow(epoch)
        self._workers = ResidentWorkers(prepared, self._increment, self._close_all)
        self._checkpointer: Checkpointer | None = None
        self._publishing: Future[Version] | None = None
        self._published = time.monotonic()
        self._publisher = Publisher(prepared.recipe)
        self._compactor = Compactor(models, self._plan.model, notes)

    @property
    def first(self) -> Increment:
        """The increment that it begins with, before it runs."""
        return self._increment

    def begin(self, splits: Sequence[Split], before: Position) -> None:
        """Begin with a version, and its first splits, which come after a position."""
        increment = self._increment
        increment.before = before
        increment.add(splits)
        self._begin_version(increment)
        assert increment.draft is not None
        try:
            self._shards = begin_here(self._of_version(increment), increment.draft, increment.epoch, increment.monitor).shards
        except BaseException:
            increment.draft.__exit__(*sys.exc_info())
            raise

    def go_on(self, draft: Draft, segment: Segment) -> None:
        """Go on with a version that was interrupted, with the splits of its log."""
        increment = self._increment
        increment.before = segment.before
        begun = begin_here(self._of_version(increment), draft, increment.epoch, increment.monitor)
        self._shards = begun.shards
        increment.go_on(draft, segment.splits, begun.standing, begun.opened)

    def run(self) -> Version | None:
        """Learn until asked to stop; return the last version made, None where none was made.

        Raises:
            XpsqlError: what ended it; the versions that it made stay.
        """
        shards = self._shards
        if self._plan.clause(EVALUATE) is not None:
            for shard in shards.values():
                shard.watch()
        self._watch(self._increment)
        self._take_checkpoints(self._increment)
        self._increment.opened.set()
        with (
            self._compactor,
            ThreadPoolExecutor(1, thread_name_prefix="xpsql-publish") as self._writer,
            ThreadPoolExecutor(self._prepared.places.workers, thread_name_prefix="xpsql-worker") as pool,
        ):
            try:
                self._workers.start(pool, LocalClient(list(shards.values())))
                while not self._announcer.stopping:
                    self._turn()
                    time.sleep(FEED_SECONDS)
                return self._end()
            except BaseException:
                self._give_up()
                raise

    def _give_up(self) -> None:
        """Let all threads end, take a last checkpoint after an interrupt, and fail the unfinished version with the current
        error."""
        self._workers.fail()
        self._workers.wait()
        if self._publishing is not None:
            wait([self._publishing])
        self._close_checkpoints()
        for increment in self._increments:
            if increment.draft is not None:
                increment.draft.__exit__(*sys.exc_info())

    def _turn(self) -> None:
        """Do one round of housekeeping."""
        self._check()
        increment = self._increment
        if increment.draft is None and increment.splits and self._publishing is None:
            self._begin_version(increment)
            self._take_checkpoints(increment)
        if self._is_due(increment) and self._publishing is None and increment.draft is not None:
            self._publish()
        else:
            self._feed_one(increment)
        self._tell()

    def _check(self) -> None:
        """Raise the error of a failed worker or publication; adopt a finished publication."""
        self._workers.check()
        if self._publishing is not None and self._publishing.done():
            self._parent, self._publishing = self._publishing.result(), None

    def _feed_one(self, increment: Increment) -> None:
        """Feed an increment whose workers will soon run out of splits."""
        num_workers, examples = self._prepared.places.workers, self._publish_every.examples
        splits, rows = num_workers - len(increment.dealer.waiting), AHEAD_ROWS * num_workers - increment.waiting_rows
        left = math.inf if examples is None else examples - increment.examples - increment.open_rows
        if left > 0 and (splits > 0 or rows > 0):
            taken = self._feed.take(splits, min(rows, left))
            if isinstance(scan := increment.prepared.scan, SegmentScan):
                scan.admit(taken)
            increment.add(taken)

    def _is_due(self, increment: Increment) -> bool:
        """Return whether a publication is due."""
        if not increment.examples:
            return False
        seconds, examples = self._publish_every.seconds, self._publish_every.examples
        if seconds is not None:
            return time.monotonic() - self._published >= seconds
        return increment.examples >= (examples or 0) or (not increment.open_rows and increment.rows >= (examples or 0))

    def _publish(self) -> None:
        """Let workers go on with the next increment when all have learned this one, and start writing this one as it is
        then."""
        old = self._increment
        new = self._follow(old.epoch + 1)
        self._announcer.state = "publishing"
        self._close_checkpoints()
        self._feed_one(new)  # before the old one ends: to ask a stream takes long, and what came is read while workers end it
        old.close(new)
        with promptly():
            while (arrived := self._workers.arrived(new, FEED_SECONDS)) is None:
                self._check()
                self._tell()
            moment = self._publisher.take(self._shards, self._compactor.room)
            for number, shard in self._shards.items():
                shard.watermarks = Watermarks.fresh(slices_of(number, len(self._shards)), shard.dense.names, new.epoch)
            self._learned += old.examples
            old.reporter.over = True
            self._watch(new)
            self._increment, self._published = new, time.monotonic()
            new.opened.set()
        stood = time.monotonic() - arrived
        self._publishing = self._writer.submit(self._written, old, moment, f"; learning stood still for {1000 * stood:.0f} ms")
        self._increments = [old, new]

    def _written(self, increment: Increment, moment: Moment, how: str) -> Version:
        """Write and commit the version of an increment."""
        draft, plan = increment.draft, self._plan
        assert draft is not None  # it began before
        began = time.monotonic()
        increment.keep_notes(draft.folder)
        failing = self._publisher.publish(self._of_version(increment), moment, draft, increment.monitor, self._models)
        increment.draft = None
        number, announcer = draft.number, self._announcer
        seconds = time.monotonic() - began
        announcer.note(f"{plan.model} v{number}: {increment.examples:,} examples, written in {seconds:.1f} s{how}.")
        if failing is not None:
            announcer.note(f"{failing} Learning continues.")
        announcer.publish(number)
        announcer.state = "learning"
        version = self._models.version(plan.model, number)
        self._compactor.look(version)
        self._models.retain(plan.model, plan.clause(RETAIN) or RETAINED)
        return version

    def _end(self) -> Version | None:
        """Publish what is learned, where anything is, when workers have learned what they have taken."""
        increment = self._increment
        increment.close(None)
        while not self._workers.done or self._publishing is not None:
            self._check()
            self._tell()
            time.sleep(FEED_SECONDS)
        self._check()
        self._close_checkpoints()
        if increment.examples:
            if increment.draft is None:
                self._begin_version(increment)
            return self._written(increment, self._publisher.take(self._shards, self._compactor.room), "")
        if increment.draft is not None:
            increment.draft.discard()
            increment.draft = None
        if self._parent is not None and increment.splits:
            stream = self._feed.stream
            write_passed(self._parent.folder, {**self._parent.position, stream.name: self._feed.position})
        return self._parent if self._announcer.versions else None

    def _follow(self, epoch: int) -> Increment:
        """Return the increment that is learned next."""
        reporter = self._announcer.of_increment(self._learned + sum(one.examples for one in self._increments[-1:]))
        notes = self._notes / str(epoch)
        increment = Increment(
            replace(self._prepared, splits=[]), epoch, self._feed.position, reporter, self._announcer.lag.values, notes
        )
        if self._increments:
            increment.monitor.follow(self._workers.clocks)
        self._increments = [*self._increments[-1:], increment]
        return increment

    def _watch(self, increment: Increment) -> None:
        increment.monitor.watch(lambda: total(shard.describe() for shard in self._shards.values()))

    def _of_version(self, increment: Increment) -> Prepared:
        """Return the training of the version that an increment becomes."""
        parent = self._parent
        first = parent is None or parent.number == self._plan.parent
        plan = self._plan if first or parent is None else replace(self._plan, parent=parent.number, replace=False)
        prepared = increment.prepared
        segment = Segment(self._feed.stream, prepared.scan, increment.splits, increment.before)
        return replace(prepared, plan=plan, parent=parent, segment=segment)

    def _begin_version(self, increment: Increment) -> None:
        """Begin the version that an increment becomes, and checkpoints of its training."""
        prepared = self._of_version(increment)
        plan = prepared.plan
        manifest = manifest_of(plan, prepared.columns, prepared.recipe, prepared.parent)
        draft = self._models.begin(plan.model, manifest, plan.replace, self._lock)
        increment.begin(draft)
        manifest = recorded(draft.manifest, prepared)
        draft.record(replace(manifest, epoch=increment.epoch, sizes=replace(manifest.sizes, examples=None)))

    def _take_checkpoints(self, increment: Increment) -> None:
        """Take checkpoints of an increment that has a version, from now on."""
        draft = increment.draft
        assert draft is not None

        def state() -> DriverState:
            increment.keep_notes(draft.folder)
            seen = [window for collector in increment.collectors if (window := collector.open()) is not None]
            return increment.monitor.state(increment.dealer.finished, seen)

        taker = Beside(self._shards, self._workers.pace, draft.checkpoints.place, state)
        seconds = self._plan.settings.checkpoint_seconds
        self._checkpointer = Checkpointer(draft.checkpoints, increment.epoch, seconds, taker, self._announcer.note)
        self._checkpointer.__enter__()

    def _close_checkpoints(self) -> None:
        """Take no more checkpoints; a last one after an interrupt."""
        if self._checkpointer is not None:
            checkpointer, self._checkpointer = self._checkpointer, None
            checkpointer.__exit__(*sys.exc_info())

    def _tell(self) -> None:
        """Report progress."""
        announcer, feed = self._announcer, self._feed
        rows = feed.waiting_rows + sum(one.open_rows for one in self._increments)
        announcer.lag.rows = rows
        announcer.lag.seconds = self._behind() if rows else 0.0
        if self._publishing is None:
            announcer.state = "learning" if rows else "waiting"
        announcer.tell(self._learned + self._increment.examples)

    def _behind(self) -> float:
        """Return how many seconds it is behind: from the newest TIME learned to now, without TIME since what waits was seen."""
        newest = max(shard.now for shard in self._shards.values())
        if self._plan.clause(TIME) is not None and newest:
            return max(0.0, time.time() - newest)
        since = self._feed.waiting_since
        return 0.0 if since is None else time.monotonic() - since

    def _close_all(self) -> None:
        """Take no more, so that no thread waits."""
        for increment in self._increments:
            increment.close(None)
