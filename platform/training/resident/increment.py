"""An increment: what a resident training learns between two publications, from splits that arrive while workers learn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....warehouse.durable import make_folder, storing
from ....warehouse.entries import Split
from ....warehouse.trainings.progress import append_progress, now_text
from ....warehouse.trainings.segments import append_segment
from ...input.dealing import Dealer, Standing, TurnAssignment, finished_of
from ...input.source import Source
from ...input.streams.base import Position
from ...input.streams.segment_scan import SegmentScan
from ...input.streams.skipped import SKIPPED
from ...ps.watermarks import Turn
from ..clauses.evaluate import EVALUATE
from ..metrics.windows import Collector, Key, Schedule, WindowPart
from ..monitor import Monitor
from ..prepared import Prepared

if TYPE_CHECKING:
    from ....warehouse.draft import Draft
    from .announcer import IncrementReporter

POLL_SECONDS = 0.2
"""How often a waiting thread checks whether the training has failed."""


class GrowingDealer(Dealer):
    """Deals turns that are added meanwhile; a caller waits for the next turn until no more are added."""

    def __init__(self, num_workers: int) -> None:
        super().__init__((), num_workers, False)
        self._standing = Standing()
        self._unfinished: set[Turn] = set()
        self._more = threading.Condition(self._lock)
        self._closed = False

    def go_on(self, standing: Standing) -> None:
        """Deal from where a training stands, before anything is dealt."""
        self._standing = standing
        self._finished = finished_of(standing)

    def add(self, turns: Sequence[Turn]) -> None:
        """Deal these, too."""
        with self._more:
            self._place |= {turn: len(self._place) + number for number, turn in enumerate(turns)}
            opened = self._open(turns, self._standing)
            self._unfinished.update(dealt.turn for dealt in opened)
            self._waiting[0].extend(opened)  # which all workers share
            self._more.notify_all()

    def finish(self, worker: int, turn: Turn, batches: int) -> None:
        """See Dealer.finish."""
        super().finish(worker, turn, batches)
        with self._lock:
            self._unfinished.discard(turn)

    def close(self) -> None:
        """Add no more."""
        with self._more:
            self._closed = True
            self._more.notify_all()

    def next(self, worker: int) -> TurnAssignment | None:
        """See Dealer.next; waits until there is a turn, or no more are added."""
        while (dealt := super().next(worker)) is None:
            with self._more:
                if not self._waiting[worker]:  # another worker may have taken what this one waited for
                    if self._closed:
                        return None
                    self._more.wait()
        return dealt

    @property
    def waiting(self) -> list[Turn]:
        """The turns that nobody has taken."""
        with self._lock:
            return [dealt.turn for dealt in self._waiting[0]]

    @property
    def open_turns(self) -> list[Turn]:
        """The turns that are not finished."""
        with self._lock:
            return list(self._unfinished)


class ProgressLog:
    """Where a monitor writes its lines: a version's, or memory until there is one."""

    def __init__(self, lag: Callable[[], Mapping[str, float]]) -> None:
        self._lag = lag
        self._folder: Path | None = None
        self._kept: list[Mapping[str, Any]] = []
        self._lock = threading.Lock()

    def progress(self, values: Mapping[str, Any]) -> None:
        """See Draft.progress."""
        line = {"time": now_text(), **values, **self._lag()}
        with self._lock:
            if self._folder is None:
                self._kept.append(line)
            else:
                append_progress(self._folder, line)

    def write_to(self, folder: Path) -> None:
        """Write to a version from now on, beginning with the lines kept so far."""
        with self._lock:
            for values in self._kept:
                append_progress(folder, values)
            self._folder, self._kept = folder, []


class Increment:
    """What is learned between two publications. While the previous version is still being written it has no draft; what it
    learns until then is lost if the process dies, and is learned again by the training that continues that version.

    Args:
        prepared: with an empty list of splits, to which arriving ones are added.
        epoch: of its pushes, later than the epochs of the increments before.
        lag: how far the training is behind, for lines of progress.
        notes: a folder for messages that could not be decoded, until they are kept beside the version.

    Attributes:
        before: the position at which it begins.
        opened: set when workers may learn from it: all before is learned, and published or about to be.
        following: the increment after it; None until it is closed.
        rows: the most rows that its splits have.
    """

    def __init__(
        self,
        prepared: Prepared,
        epoch: int,
        before: Position,
        reporter: IncrementReporter,
        lag: Callable[[], Mapping[str, float]],
        notes: Path,
    ) -> None:
        self._notes = notes
        scan = prepared.scan.beside(notes) if isinstance(prepared.scan, SegmentScan) else prepared.scan
        self.prepared, self.epoch, self.before = replace(prepared, scan=scan), epoch, before
        self.splits: list[Split] = prepared.splits
        self.dealer = GrowingDealer(prepared.places.workers)
        self.log = ProgressLog(lag)
        self.draft: Draft | None = None
        self.reporter = reporter
        self.opened = threading.Event()
        self.closed = threading.Event()
        self.following: Increment | None = None
        evaluate = prepared.plan.clause(EVALUATE)
        self.monitor = Monitor(prepared.targets, self.log, reporter, evaluate is not None)
        self._number_of: list[int] = []
        self._num_batches = self.rows = 0
        self._begun: dict[Key, WindowPart] = {}
        self.schedule = None if evaluate is None else Schedule(evaluate, self._number_of, 0)
        self.collectors = [
            Collector(self.schedule, prepared.targets, self.monitor.step, self.monitor.close, self._begun)
            for _ in range(prepared.places.workers)
        ]

    @property
    def source(self) -> Source:
        """Its input, batch by batch."""
        return self.prepared.source(self.epoch)

    @property
    def examples(self) -> int:
        """How many are learned."""
        return self.monitor.passes.examples

    @property
    def open_rows(self) -> int:
        """The most rows that are dealt or waiting, and not learned."""
        return sum(self.splits[turn.split].rows for turn in self.dealer.open_turns)

    @property
    def waiting_rows(self) -> int:
        """The most rows that are dealt and not taken."""
        return sum(self.splits[turn.split].rows for turn in self.dealer.waiting)

    def add(self, splits: Sequence[Split]) -> None:
        """Let workers learn from splits; with a draft they are on the disk before.

        Raises:
            ModelError: they cannot be written.
        """
        if self.draft is not None and splits:
            append_segment(self.draft.folder, splits)
        self.deal(splits)

    def deal(self, splits: Sequence[Split]) -> None:
        """Let workers learn from splits that are on the disk, or need not be."""
        first = len(self.splits)
        for split in splits:
            self._number_of.append(self._num_batches)
            self._num_batches += -(-split.rows // self.prepared.batch_size)
            self.rows += split.rows
        self.splits.extend(splits)
        self.dealer.add([Turn(0, first + number) for number, split in enumerate(splits) if split.rows])

    def go_on(self, draft: Draft, splits: Sequence[Split], standing: Standing, opened: Mapping[Key, WindowPart]) -> None:
        """Go on with a version that was interrupted, with the splits of its log."""
        self.log.write_to(draft.folder)
        self.draft = draft
        self._begun.update(opened)
        self.dealer.go_on(standing)
        self.deal(splits)

    def begin(self, draft: Draft) -> None:
        """Take the version that it becomes, and log the splits taken so far there."""
        if self.splits:
            append_segment(draft.folder, self.splits)
        self.log.write_to(draft.folder)
        self.draft = draft
        self.keep_notes(draft.folder)

    def keep_notes(self, folder: Path) -> None:
        """Move the record of undecodable messages beside a version, before a checkpoint says that they are read."""
        for path in (self._notes / SKIPPED).glob("*.jsonl"):
            with storing(folder):
                make_folder(folder / SKIPPED)
                path.replace(folder / SKIPPED / path.name)

    def close(self, following: Increment | None) -> None:
        """Take no more splits; prefetching goes on with the increment that follows, None: there is none."""
        self.following = following
        self.closed.set()
        self.dealer.close()

    def awaited(self, failed: Callable[[], bool]) -> bool:
        """Wait until workers may learn from it; False where the training has failed meanwhile."""
        while not self.opened.wait(POLL_SECONDS):
            if failed():
                return False
        return not failed()
