"""A draft: a version that is being made."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from ..platform.errors import DataError, StatementError, XpsqlError
from ..platform.quoting import masked
from .checksums import collected
from .durable import clear, link_tree, storing, sync_names, sync_tree
from .entries import RoundEntry
from .files import VersionFiles
from .locks import Lock
from .manifest import Manifest, write_manifest
from .trainings.checkpoints import Checkpoint, Checkpoints, checkpoints_of, clear_checkpoints
from .trainings.progress import append_progress

ROWS = ("rows", "tombstones", "dense", "candidates", "trials", "package", "tree", "calibration", "profile", "program")
DATA = (*ROWS, "saved")
"""What a training writes at its end."""
VECTORS = "vectors"
"""Files beside the rows that exist before the first example is learned."""
RESUMED = ("staged", "items", "checkpoints", "best", "rounds")
"""Files from which RESUME continues."""


class Draft(VersionFiles):
    """A version that is being made, and the locks that keep others from its model meanwhile.

        with models.begin("ctr", manifest) as draft:
            draft.progress({"batch": 100, "auc": 0.71})
            with draft.writer(table) as rows:
                rows.write(batch)
            draft.commit(dataclasses.replace(draft.manifest, metrics=metrics))

    Leaving the block by an exception (KeyboardInterrupt too) fails the version, and so does leaving it without a commit; one
    that has a checkpoint, and data that can be learned from, is `interrupted` and can be resumed. A process that is killed
    leaves a version that reads as `interrupted`.

    Attributes:
        manifest: as it was begun: with version, status and time.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        locks: tuple[Lock, ...],
        recorded: Callable[[], None],
        committed: Callable[[], None],
        discarded: Callable[[], None],
    ) -> None:
        super().__init__(folder)
        self.manifest = manifest
        self._locks = locks
        self._recorded = recorded
        self._committed = committed
        self._discarded = discarded
        self._open = True
        self._began = time.monotonic()

    @property
    def number(self) -> int:
        return self.manifest.version

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of its training."""
        return checkpoints_of(self.manifest, self.folder)

    def record(self, manifest: Manifest) -> None:
        """Record the input: from now on this training can be resumed, and earlier ones cannot."""
        self.checkpoints.begin()
        write_manifest(self.folder, manifest)
        self.manifest = manifest
        self._recorded()

    def enter(self, epoch: int) -> None:
        """Note that its training begins again in a new epoch."""
        self.manifest = dataclasses.replace(self.manifest, epoch=epoch)
        write_manifest(self.folder, self.manifest)

    @property
    def round_epoch(self) -> int:
        """The epoch in which the round began that its training is in."""
        rounds = self.manifest.learned.rounds
        return rounds[-1].next_epoch if rounds else 0

    def begin_round(self, rounds: Sequence[RoundEntry], state: int) -> None:
        """Note that a further round of its training begins, in an epoch of its own.

        Args:
            rounds: those before.
            state: the checksum of how far it was, in `rounds`.
        """
        epoch = self.manifest.epoch + 1
        newest = dataclasses.replace(rounds[-1], state=state, next_epoch=epoch)
        self.manifest = self.manifest.having_learned(rounds=(*rounds[:-1], newest))
        self.enter(epoch)

    def progress(self, values: Mapping[str, Any]) -> None:
        """Add a line of progress; other processes see it at once (ML.TRAINING_INFO)."""
        append_progress(self.folder, values)

    def adopt(self, written: VersionFiles) -> None:
        """Make the rows in a folder of `saved` or `best` the version's rows.

        Those of `best` stay where they are, too, until the version is committed: a training that is killed before that goes on
        from a checkpoint, and its best pass is written no second time.
        """
        kept = not written.folder.is_relative_to(self.saved)
        with storing(self.folder):
            for name in ROWS:
                if (written.folder / name).exists():
                    clear(self.folder / name)
                    (link_tree if kept else Path.rename)(written.folder / name, self.folder / name)
            clear(self.saved)

    def make_durable(self, written: VersionFiles) -> None:
        """Wait until a folder of `best` is on the disk: a checkpoint that knows of it is worth nothing without it."""
        with storing(written.folder):
            sync_tree(written.folder)
            sync_names(written.folder.parent, self.folder)

    def keep(self, number: int, kept: bool) -> None:
        """Keep the version's rows as those of a pass in `best` alone.

        Args:
            kept: they are there already.
        """
        to = self.best(number).folder
        with storing(self.folder):
            if not kept:
                clear(to)
                to.mkdir(parents=True)
            for name in ROWS:
                if (self.folder / name).exists():
                    if kept:
                        clear(self.folder / name)
                    else:
                        (self.folder / name).rename(to / name)
        self.make_durable(self.best(number))

    def clear_best(self, stays: Callable[[int], bool]) -> None:
        """Remove the rows of passes that cannot become the version's any more."""
        with storing(self.folder):
            for path in self.best(0).folder.parent.glob("*"):
                if not (path.name.isdigit() and stays(int(path.name))):
                    clear(path)

    def commit(self, manifest: Manifest, status: Literal["ready", "held"] = "ready") -> None:
        """Make the version appear: its files are made durable, then its manifest is replaced, which is the one atomic step.

        Sets version, status, times and `examples_total` in `manifest`, whose `error` says why it is held; gives the locks back.

        Raises:
            ModelError: the disk is full or not writable; the version is not committed and can still be failed.
        """
        with storing(self.folder):
            files = collected(self.folder, (*ROWS, VECTORS))
            for name in (*ROWS, VECTORS):
                if (self.folder / name).exists():
                    sync_tree(self.folder / name)
            sync_names(self.folder, self.folder.parents[2])
        begun = self.manifest.learned.examples_total
        total = begun + manifest.learned.examples
        error = manifest.error if status == "held" else None
        learned = manifest.having_learned(examples_total=total)
        self._end(dataclasses.replace(learned, status=status, error=error, files=files))
        self._open = False  # the version exists, whatever happens to files that it makes obsolete
        try:
            clear_checkpoints(self.manifest, self.folder)
            with contextlib.suppress(XpsqlError, OSError):
                self._committed()
        finally:
            self._release()

    def fail(self, error: BaseException | str) -> None:
        """Mark the version failed, with the text of the error, remove its data, and give the locks back.

        One that can be resumed is `interrupted` instead, and keeps its input and checkpoints.
        """
        try:
            begun = bool(self.manifest.learned.rounds) or self._has_checkpoint()
            resumed = begun and not isinstance(error, DataError | StatementError)
            for name in DATA if resumed else (*DATA, *RESUMED, VECTORS):
                clear(self.folder / name)
            if not resumed:
                clear_checkpoints(self.manifest, self.folder)
            self._end(dataclasses.replace(self.manifest, status="interrupted" if resumed else "failed", error=reason(error)))
        finally:
            self._release()

    def _has_checkpoint(self) -> bool:
        return any(isinstance(found, Checkpoint) for found in self.checkpoints.complete())

    def discard(self) -> None:
        """Undo the draft and release the locks: its statement cannot run."""
        try:
            self._discarded()
        finally:
            self._release()

    def _end(self, manifest: Manifest) -> None:
        """Write the last manifest of this version: what it is and when it began are the draft's, whatever `manifest` says."""
        begun = self.manifest
        ended = dataclasses.replace(
            manifest,
            model=begun.model,
            version=begun.version,
            parent=begun.parent,
            replaces=begun.replaces,
            created=begun.created,
            training=begun.training,
            finished=datetime.now(UTC),
            seconds=(begun.seconds or 0.0) + time.monotonic() - self._began,
        )
        origin = begun.learned.origin
        ended = ended.having_origin(lineage=origin.lineage, copied=origin.copied, applied=origin.applied)
        write_manifest(self.folder, ended)
        self.manifest = ended

    def _release(self) -> None:
        self._open = False
        for lock in self._locks:
            lock.release()

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._open:
            return
        try:
            self.fail("The training ended without a result." if error is None else error)
            if error is not None and self.manifest.status == "interrupted":
                model = self.manifest.model
                error.add_note(
                    f"Version {self.number} of {model} keeps its last checkpoint: RESUME MODEL {model} continues from it."
                )
        except XpsqlError as second:
            if error is None:
                raise
            error.add_note(f"Version {self.number} could not be marked failed and reads as interrupted: {second}")


def reason(error: BaseException | str) -> str:
    """Return why a training ended, in words."""
    if isinstance(error, KeyboardInterrupt):
        return "The training was interrupted."
    if isinstance(error, str | XpsqlError | OSError):
        return masked(str(error))
    return masked(f"{type(error).__name__}: {error}").removesuffix(": ")  # a KeyError's text is only its key
