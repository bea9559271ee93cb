"""Changes of the models of a warehouse; catalog.py finds them, and describes their layout on disk."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import uuid
from datetime import UTC, datetime
from pathlib import Path

from ..platform.errors import ModelError
from .catalog import Catalog
from .chains.compaction import adopt, drop_needless
from .chains.links import KEPT
from .draft import DATA, Draft
from .durable import clear, remove, replace_text
from .folders import (
    PROMOTED,
    clear_kept,
    forget,
    is_known,
    last_number,
    leftovers,
    needed_by,
    place_draft,
    read_version,
    remove_version,
    renewed_lock,
    set_last_number,
    trash,
    trash_unread,
    version_folders,
    version_numbers,
)
from .locks import Lock, busy
from .manifest import FORMAT, Manifest, write_manifest
from .names import model_name
from .trainings.checkpoints import checkpoints_of, clear_checkpoints
from .trainings.progress import mend_progress
from .trainings.segments import mend_segments
from .version import Version, newest_checkpoint

LINEAGE = 64
"""Versions that a version knows to go back to."""


class Models(Catalog):
    """The models in the folder `models` of a warehouse, which can be changed. Every change appears by one atomic step."""

    def lock(self, name: str, parent: int | None, replace: bool) -> Lock:
        """Keep others from changing a model until the lock is given back; for begin, resume and retain. Arguments as of begin.

        Raises:
            ModelError: as of begin.
        """
        self._parent(name, Manifest(parent=parent), replace)
        return self._lock(name, "trained")

    def begin(self, name: str, manifest: Manifest, replace: bool = False, under: Lock | None = None) -> Draft:
        """Start a new version and lock its model until the draft ends.

        Args:
            name: the model.
            manifest: what is known before the training; `parent` names the version that it continues.
            replace: earlier versions are removed once it is ready; until then they are served.
            under: the model's lock, which the caller has and keeps; None: it is taken, and given back with the draft.

        Raises:
            ModelError: the model exists and is neither continued nor replaced, the parent cannot be used, another process
                is changing the model, or the warehouse is not writable.
        """
        # Asked before the lock makes a folder, and again under it, since the model may change in between.
        self._parent(name, manifest, replace)
        locks = (self._lock(name, "trained"),) if under is None else ()
        try:
            return self._begin(name, manifest, replace, locks)
        except BaseException:
            for lock in locks:
                lock.release()
            raise

    def _begin(self, name: str, manifest: Manifest, replace: bool, locks: tuple[Lock, ...]) -> Draft:
        from importlib.metadata import version

        folder = self._folder(name)
        parent = self._parent(name, manifest, replace)
        self._sweep(folder)
        number = 1 + max([last_number(folder), *version_numbers(folder)])
        set_last_number(folder, number)
        begun = dataclasses.replace(
            manifest,
            model=model_name(folder.name),
            version=number,
            status="training",
            replaces=replace,
            created=datetime.now(UTC),
            training=uuid.uuid4().hex,
            environment={"xpsql": version("xpsql"), **manifest.environment},
        )
        if parent is not None:
            before = parent.manifest
            begun = begun.having_learned(examples_total=before.learned.examples_total)
            begun = begun.having_origin(lineage=(*before.learned.origin.lineage, before.identity)[-LINEAGE:])
        own = place_draft(folder, begun)
        return Draft(
            folder / f"v{number}",
            begun,
            (own, *locks),
            recorded=lambda: self._abandon(folder, number),
            committed=lambda: self._sweep(folder),
            discarded=lambda: forget(folder, number),
        )

    def resume(self, name: str, under: Lock | None = None) -> Draft:
        """Open the newest interrupted version again, in a new epoch, and lock its model until the draft ends.

        Args:
            under: as of begin.

        Raises:
            ModelError: there is none, or another process is changing the model.
        """
        self.interrupted(name)
        locks = (self._lock(name, "trained"),) if under is None else ()
        try:
            version = self.interrupted(name)
            self._sweep(version.folder.parent)
            return self._reopen(version, locks)
        except BaseException:
            for lock in locks:
                lock.release()
            raise

    def _reopen(self, version: Version, locks: tuple[Lock, ...]) -> Draft:
        folder, before = version.folder, version.manifest
        epoch = 1 + max(before.epoch, checkpoints_of(before, folder).epoch())
        own = renewed_lock(folder)
        try:
            for name in DATA:
                remove(folder / name)
            mend_progress(folder, bool(before.learned.rounds) or newest_checkpoint(before, folder) is not None)
            mend_segments(folder)
            checkpoints_of(before, folder).mark()  # the place may have gone since
            manifest = dataclasses.replace(before, status="training", epoch=epoch, error=None)
            write_manifest(folder, manifest)
        except BaseException:
            own.release()
            raise
        return Draft(
            folder,
            manifest,
            (own, *locks),
            recorded=lambda: None,
            committed=lambda: self._sweep(folder.parent),
            discarded=lambda: write_manifest(folder, before),
        )

    def _abandon(self, folder: Path, number: int) -> None:
        """Give up interrupted trainings before a version, and remove what they kept for resuming."""
        for version in self.present(model_name(folder.name)):
            if version.number < number and version.manifest.status == "interrupted" and is_known(version.manifest):
                error = f"It was interrupted, and version {number} was trained instead of resuming it."
                write_manifest(version.folder, dataclasses.replace(version.manifest, status="failed", error=error))
                clear_checkpoints(version.manifest, version.folder)
        self._sweep(folder)

    def _parent(self, name: str, manifest: Manifest, replace: bool) -> Version | None:
        """Return the version that a new one continues, if any."""
        if manifest.parent is not None:
            return self.version(name, manifest.parent)
        elsewhere = manifest.learned.origin.copied or manifest.learned.origin.merged
        if not replace and not elsewhere and self.exists(name):
            raise ModelError(
                f"Model {name} exists. Use TRAIN OR REPLACE MODEL to replace it, or CONTINUE MODEL to learn new data.",
                name,
            )
        return None

    def promote(self, name: str, number: int | None) -> None:
        """Serve a version by default, None for the newest that is ready at any time; while another one is in training, too.

        Raises:
            ModelError: no such model or version, or one that is neither ready nor held.
        """
        if number is None:
            self.versions(name)
        else:
            self.version(name, number)
        replace_text(self._folder(name) / PROMOTED, json.dumps({"format": FORMAT, "version": number}))

    def drop(self, name: str, number: int | None = None) -> None:
        """Remove a model, or one version of it.

        Raises:
            ModelError: no such model or version, one that a training which can be resumed goes on from, or another process is
                changing the model.
        """
        folder = self._folder(name)
        if not version_numbers(folder):
            raise self._unknown(name)
        lock = self._lock(name, "dropped")
        try:
            if number is None:
                interrupted = self._interrupted(name, None)
                trash(folder)
            else:
                self._sweep(folder)
                left = version_numbers(folder)
                if number not in left:
                    raise ModelError(f"Model {name} has no version {number}. Versions: {', '.join(map(str, left))}.", name)
                self._check_unneeded(name, number)
                interrupted = self._interrupted(name, number)
                remove_version(folder / f"v{number}", [v for v in self.present(name) if v.number != number])
            for manifest, place in interrupted:
                clear_checkpoints(manifest, place)
            self._sweep(folder)
        finally:
            lock.release()

    def drop_old(self, name: str, retained: int) -> list[int]:
        """Remove the versions before the newest ready ones, except the served one, versions that RESUME needs, and versions
        that somebody reads.

        Args:
            retained: how many versions that are ready stay, 1 or more.

        Returns:
            The numbers of the versions removed, each in a step of its own.

        Raises:
            ModelError: no such model, or another process is changing it.
        """
        self.versions(name)
        lock = self._lock(name, "dropped")
        try:
            self._sweep(self._folder(name))
            removed = self.retain(name, retained)
            self._sweep(self._folder(name))  # what they alone were read from
            return removed
        finally:
            lock.release()

    def retain(self, name: str, retained: int) -> list[int]:
        """Do what drop_old does under the model's lock, which the caller has."""
        folder, found = self._folder(name), self.versions(name)
        newest = [version.number for version in found if version.manifest.status == "ready"][-retained:]
        resumed = {number for m, _ in self._interrupted(name, None) for number in (m.version, m.parent)}
        kept = {version.number for version in found if version.served} | resumed
        old = [v.number for v in found if newest and v.number < newest[0] and v.number not in kept]
        return [n for n in old if trash_unread(folder / f"v{n}", [v for v in self.present(name) if v.number != n])]

    def keep_whole(self, name: str, number: int, newest: Version, written: Path) -> None:
        """Give a delta version all its rows, and remove other versions' compacted rows that are no longer needed, under the
        model's lock, which the caller has; where the version is gone, the written rows are removed, too.

        Args:
            newest: the newest version that is read from it.
            written: a folder with the rows, see chains.compaction.write_whole.

        Raises:
            ModelError: the disk is full, or not writable.
        """
        folder = self._folder(name) / f"v{number}"
        if not folder.exists():
            clear(written)
            return
        adopt(written, folder)
        drop_needless(newest)

    def _check_unneeded(self, name: str, number: int) -> None:
        """Require that no training which can be resumed goes on from a version."""
        waiting = (m.version for m, _ in self._interrupted(name, None) if m.begun and m.parent == number)
        if (heir := next(waiting, None)) is not None:
            raise ModelError(
                f"Version {heir} of model {name}, whose training was interrupted, continues version {number}. RESUME MODEL "
                f"{name} first, or DROP MODEL {name} VERSION {heir}.",
                name,
            )

    def _interrupted(self, name: str, number: int | None) -> list[tuple[Manifest, Path]]:
        """Return the interrupted trainings, which keep checkpoints, of one version or all; a damaged manifest counts as
        none."""
        found = []
        for one in version_numbers(self._folder(name)) if number is None else (number,):
            folder = self._folder(name) / f"v{one}"
            with contextlib.suppress(ModelError):
                manifest = read_version(folder)
                if manifest is not None and manifest.status == "interrupted":
                    found.append((manifest, folder))
        return found

    def _lock(self, name: str, doing: str) -> Lock:
        path = self._folder(name) / "lock"
        try:
            return Lock(path, doing)
        except BlockingIOError:
            raise busy(path, name) from None

    def _sweep(self, folder: Path) -> None:
        """Garbage collection: remove leftovers of killed processes, versions that were replaced, and the data of failed
        versions.

        What cannot be removed, or is being read, stays for the next sweep.
        """
        for leftover in self.folder.glob(".trash-*"):
            clear(leftover)
        for pattern in (".trash-*", ".draft-*", ".*.json-*"):
            for leftover in folder.glob(pattern):
                clear(leftover)
        kept = {v.number: v for v in self.present(model_name(folder.name))}
        needed = needed_by(list(kept.values()))
        for number, version in version_folders(folder):
            for leftover in version.glob(".*.json-*"):
                clear(leftover)
            if number not in kept and number in needed and (version / KEPT).exists():
                clear_kept(version)
            elif number not in kept:
                with contextlib.suppress(ModelError):
                    trash_unread(version, list(kept.values()))
            else:
                for name in leftovers(kept[number].manifest):
                    clear(version / name)
