"""The models of a warehouse and their versions.

    <root>/models/<name>/lock             held by whoever changes the model
    <root>/models/<name>/model.json       the newest version's number, so that none is used twice
    <root>/models/<name>/promoted.json    the version that ALTER MODEL ... PROMOTE chose, null for the newest
    <root>/models/<name>/v<N>/            manifest.json, rows/, dense/, candidates/, progress.jsonl, lock; staged/, checkpoints/

Every change appears by one atomic step: a folder renamed into or out of its place, or a file replaced. Leftovers of a
killed process have names that begin with a dot, those of a cluster's tasks that outlive their training are versions without
a manifest; both go with the next change of the model.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ..platform.errors import ModelError, suggestion
from .checkpoints import Checkpoints, clear_checkpoints, place_of
from .draft import DATA, RESUMED, Draft
from .durable import clear, remove, replace_text, storing, sync
from .locks import Lock, busy, held, shared, unshared
from .manifest import FILE, FORMAT, Manifest, read_json, read_manifest, write_manifest
from .names import folder_name, model_name
from .progress import mend_progress
from .version import Version, newest_checkpoint

COMMITTED = ("ready", "held")
REMEDIES = {
    "training": "Wait until version {number} has ended.",
    "interrupted": "RESUME MODEL {name} goes on with version {number}, if it had begun to learn; else train again.",
    "failed": "Train again; SHOW VERSIONS OF MODEL {name} tells why version {number} failed.",
    "held": "ALTER MODEL {name} PROMOTE VERSION {number} serves the one that was held last.",
}
"""What to do where no version is ready, by the status of the newest."""
VERSION = re.compile(r"v([1-9][0-9]*)")
MOVING_SECONDS, POLL_SECONDS = 10.0, 0.01
"""How long a version that is about to be moved away is waited for, by those who would read it."""


class Models:
    """The models in the folder `models` of a warehouse. Reading waits for nobody, and needs no writable warehouse."""

    def __init__(self, root: Path) -> None:
        self.warehouse = root
        self.folder = root / "models"

    def names(self, like: str | None = None) -> list[str]:
        """Return the names of all models that have a version, sorted.

        Args:
            like: only names that match it whole, without case: `%` and `*` stand for any text, `_` for any character.
        """
        if not self.folder.exists():
            return []
        folders = [f for f in self.folder.iterdir() if not f.name.startswith(".") and _numbers(f)]
        matches = _pattern("%" if like is None else like).fullmatch
        return sorted(name for name in (model_name(f.name) for f in folders) if matches(name))

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of a model's versions, sorted, whether they can be read or not; none where it is absent."""
        return _numbers(self._folder(name))

    def exists(self, name: str) -> bool:
        """Tell whether a model has a version that can be used (`ready` or `held`)."""
        return any(v.manifest.status in COMMITTED for v in self.present(name))

    def served(self, name: str) -> int | None:
        """Return the number of the version served; None where none is, or the model is absent."""
        return next((version.number for version in self.present(name) if version.served), None)

    def passed_over(self, name: str, number: int) -> str | None:
        """Return why a version that has become ready is not served, in words; None where it is."""
        served = self.served(name)
        if served == number:
            return None
        return (
            f"Version {number} of model {name} is ready, and not served: version {served} was promoted, and CONTINUE goes on "
            f"from that one too. ALTER MODEL {name} PROMOTE VERSION {number} serves the new one, PROMOTE LAST later ones too."
        )

    def versions(self, name: str) -> list[Version]:
        """Return the versions of a model, oldest first.

        Raises:
            ModelError: no such model; a damaged manifest, or one of a newer format.
        """
        found = self.present(name)
        if not found:
            raise self._unknown(name)
        return found

    def present(self, name: str) -> list[Version]:
        """Return the versions of a model, oldest first; none where it is absent."""
        folder = self._folder(name)
        read = [m for m in (_read(folder / f"v{n}") for n in _numbers(folder)) if m is not None]
        first = max((m.version for m in read if m.replaces and m.status == "ready"), default=0)
        kept = [m for m in read if m.version >= first]
        served = _served(folder, kept)
        return [Version(folder / f"v{m.version}", m, m.version == served) for m in kept]

    def find(self, name: str, number: int | None = None) -> Version:
        """Return a version of any status: the one of that number, or the one served, or else the newest.

        Raises:
            ModelError: no such model or version.
        """
        found = self.versions(name)
        for version in found:
            if version.number == number or (number is None and version.served):
                return version
        if number is None:
            return found[-1]
        raise ModelError(f"Model {name} has no version {number}. Versions: {_listed(found)}.")

    def version(self, name: str, number: int | None = None) -> Version:
        """Return a version that can be used: the one of that number, or the one served.

        Raises:
            ModelError: no such model or version, or one whose training has not ended well.
        """
        version = self.find(name, number)
        manifest = version.manifest
        if number is None and not version.served:
            listed, remedy = _listed(self.versions(name)), REMEDIES[manifest.status].format(name=name, number=version.number)
            raise ModelError(f"Model {name} has no version that is ready. Versions: {listed}. {remedy}")
        if manifest.status not in COMMITTED:
            why = f": {manifest.error.rstrip('.')}." if manifest.error else "."
            listed = _listed(self.versions(name))
            raise ModelError(f"Version {number} of model {name} is {manifest.status}, not ready{why} Versions: {listed}.")
        return version

    @contextlib.contextmanager
    def reading(self, name: str, number: int | None = None) -> Iterator[Version]:
        """Give a version as `version` does; its files stay until the block ends, also where it is replaced meanwhile."""
        deadline = time.monotonic() + MOVING_SECONDS
        while True:
            version = self.version(name, number)
            with shared(version.folder / FILE) as stays:
                if stays or time.monotonic() > deadline:
                    yield version
                    return
            time.sleep(POLL_SECONDS)

    def begin(self, name: str, manifest: Manifest, replace: bool = False) -> Draft:
        """Start a new version and lock its model until the draft ends.

        Args:
            name: the model.
            manifest: what is known before the training; `parent` names the version that it continues.
            replace: the versions before it go once it is ready; until then they are served.

        Raises:
            ModelError: the model exists and is neither continued nor replaced, the parent cannot be used, another process
                is changing the model, or the warehouse is not writable.
        """
        # Asked before the lock makes a folder, and again under it, since the model may change in between.
        self._parent(name, manifest, replace)
        lock = self._lock(name, "trained")
        try:
            return self._begin(name, manifest, replace, lock)
        except BaseException:
            lock.release()
            raise

    def _begin(self, name: str, manifest: Manifest, replace: bool, lock: Lock) -> Draft:
        from importlib.metadata import version

        folder = self._folder(name)
        parent = self._parent(name, manifest, replace)
        self._sweep(folder)
        number = 1 + max([_last(folder), *_numbers(folder)])
        _set_last(folder, number)
        begun = dataclasses.replace(
            manifest,
            model=model_name(folder.name),
            version=number,
            status="training",
            replaces=replace,
            created=datetime.now(UTC),
            xpsql=version("xpsql"),
            examples_total=parent.manifest.examples_total if parent else 0,
        )
        own = _place(folder, begun)
        return Draft(
            folder / f"v{number}",
            begun,
            (own, lock),
            recorded=lambda: self._abandon(folder, number),
            committed=lambda: self._sweep(folder),
            discarded=lambda: _forget(folder, number),
        )

    def interrupted(self, name: str) -> Version:
        """Return the newest version whose training was interrupted and can be resumed.

        Raises:
            ModelError: no such model, or none of its versions was interrupted after it had begun to learn.
        """
        found = self.versions(name)
        if (version := newest_interrupted(found)) is not None:
            return version
        raise ModelError(
            f"Model {name} has no training to resume: versions {_listed(found)}. Only one that was interrupted after it had "
            "begun to learn, and before another TRAIN or CONTINUE of the model, can be resumed."
        )

    def resume(self, name: str) -> Draft:
        """Open the newest interrupted version again, in a new epoch, and lock its model until the draft ends.

        Raises:
            ModelError: there is none, or another process is changing the model.
        """
        self.interrupted(name)
        lock = self._lock(name, "trained")
        try:
            version = self.interrupted(name)
            self._sweep(version.folder.parent)
            return self._reopen(version, lock)
        except BaseException:
            lock.release()
            raise

    def _reopen(self, version: Version, lock: Lock) -> Draft:
        folder, before = version.folder, version.manifest
        epoch = 1 + max(before.epoch, Checkpoints(place_of(before, folder)).epoch())
        own = _renewed_lock(folder)
        try:
            for name in DATA:
                remove(folder / name)
            mend_progress(folder, newest_checkpoint(before, folder) is not None)
            manifest = dataclasses.replace(before, status="training", epoch=epoch, error=None)
            write_manifest(folder, manifest)
        except BaseException:
            own.release()
            raise
        return Draft(
            folder,
            manifest,
            (own, lock),
            recorded=lambda: None,
            committed=lambda: self._sweep(folder.parent),
            discarded=lambda: write_manifest(folder, before),
        )

    def _abandon(self, folder: Path, number: int) -> None:
        """Let interrupted trainings before a version be resumed no more, and remove what they kept for it."""
        for version in self.present(model_name(folder.name)):
            if version.number < number and version.manifest.status == "interrupted":
                error = f"It was interrupted, and version {number} was trained instead of resuming it."
                write_manifest(version.folder, dataclasses.replace(version.manifest, status="failed", error=error))
                clear_checkpoints(version.manifest, version.folder)
        self._sweep(folder)

    def _parent(self, name: str, manifest: Manifest, replace: bool) -> Version | None:
        """Return the version that a new one continues, if any."""
        if manifest.parent is not None:
            return self.version(name, manifest.parent)
        if not replace and self.exists(name):
            raise ModelError(
                f"Model {name} exists. Use TRAIN OR REPLACE MODEL to replace it, or CONTINUE MODEL to go on with new data."
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
        replace_text(self._folder(name) / "promoted.json", json.dumps({"format": FORMAT, "version": number}))

    def drop(self, name: str, number: int | None = None) -> None:
        """Remove a model, or one version of it.

        Raises:
            ModelError: no such model or version, one that a training which can be resumed goes on from, or another process is
                changing the model.
        """
        folder = self._folder(name)
        if not _numbers(folder):
            raise self._unknown(name)
        lock = self._lock(name, "dropped")
        try:
            if number is None:
                interrupted = self._interrupted(name, None)
                _trash(folder)
            else:
                self._sweep(folder)
                left = _numbers(folder)
                if number not in left:
                    raise ModelError(f"Model {name} has no version {number}. Versions: {', '.join(map(str, left))}.")
                self._check_unneeded(name, number)
                interrupted = self._interrupted(name, number)
                _trash(folder / f"v{number}")
            for manifest, place in interrupted:
                clear_checkpoints(manifest, place)
        finally:
            lock.release()

    def drop_old(self, name: str, retained: int) -> list[int]:
        """Remove the versions before the newest ones that are ready, but the one served, and those that RESUME needs or that
        somebody reads.

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
            folder = self._folder(name)
            self._sweep(folder)
            found = self.versions(name)
            newest = [version.number for version in found if version.manifest.status == "ready"][-retained:]
            resumed = {number for m, _ in self._interrupted(name, None) for number in (m.version, m.parent)}
            kept = {version.number for version in found if version.served} | resumed
            old = [v.number for v in found if newest and v.number < newest[0] and v.number not in kept]
            return [number for number in old if _trash_unread(folder / f"v{number}")]
        finally:
            lock.release()

    def _check_unneeded(self, name: str, number: int) -> None:
        """Require that no training which can be resumed goes on from a version."""
        waiting = (m.version for m, _ in self._interrupted(name, None) if m.splits and m.parent == number)
        if (heir := next(waiting, None)) is not None:
            raise ModelError(
                f"Version {heir} of model {name}, whose training was interrupted, goes on from version {number}. RESUME MODEL "
                f"{name} first, or DROP MODEL {name} VERSION {heir}."
            )

    def _interrupted(self, name: str, number: int | None) -> list[tuple[Manifest, Path]]:
        """Return the interrupted trainings, which keep checkpoints, of one version or all; a damaged manifest tells nothing."""
        found = []
        for one in _numbers(self._folder(name)) if number is None else (number,):
            folder = self._folder(name) / f"v{one}"
            with contextlib.suppress(ModelError):
                manifest = _read(folder)
                if manifest is not None and manifest.status == "interrupted":
                    found.append((manifest, folder))
        return found

    def _folder(self, name: str) -> Path:
        return self.folder / folder_name(name)

    def _lock(self, name: str, doing: str) -> Lock:
        path = self._folder(name) / "lock"
        try:
            return Lock(path, doing)
        except BlockingIOError:
            raise busy(path, name) from None

    def _unknown(self, name: str) -> ModelError:
        return ModelError(f"There is no model {name}.{suggestion(name, self.names())}")

    def _sweep(self, folder: Path) -> None:
        """Remove what killed processes left, what a replacing version made needless, and the data of versions that failed.

        What cannot be removed, and what somebody reads, stays for the next sweep.
        """
        for leftover in self.folder.glob(".trash-*"):
            clear(leftover)
        for pattern in (".trash-*", ".draft-*", ".*.json-*"):
            for leftover in folder.glob(pattern):
                clear(leftover)
        kept = {v.number: v for v in self.present(model_name(folder.name))}
        for number, version in _folders(folder):
            if number not in kept:
                with contextlib.suppress(ModelError):
                    _trash_unread(version)
            else:
                for name in _leftovers(kept[number].manifest):
                    clear(version / name)


def newest_interrupted(versions: Sequence[Version]) -> Version | None:
    """Return the newest version whose training was interrupted and can be resumed, if there is one."""
    waiting = (v for v in reversed(versions) if v.manifest.status == "interrupted" and v.manifest.splits)
    return next(waiting, None)


def _leftovers(manifest: Manifest) -> tuple[str, ...]:
    """Return the folders of a version that are of no use any more."""
    if manifest.status in COMMITTED:
        return (*RESUMED, "saved")
    if manifest.status == "interrupted" and manifest.splits:
        return DATA
    return (*DATA, *RESUMED) if manifest.status != "training" else ()


def _listed(versions: Sequence[Version]) -> str:
    return ", ".join(f"{v.number} ({v.manifest.status})" for v in versions)


def _pattern(like: str) -> re.Pattern[str]:
    wild = {"%": ".*", "*": ".*", "_": "."}
    return re.compile("".join(wild.get(c) or re.escape(c) for c in like), re.IGNORECASE | re.DOTALL)


def _numbers(folder: Path) -> list[int]:
    """Return the numbers of the versions in a model's folder, sorted; none where it is absent."""
    return [number for number, version in _folders(folder) if (version / FILE).exists()]


def _folders(folder: Path) -> list[tuple[int, Path]]:
    """Return the numbers and folders of versions, sorted, and what tasks of a training that failed wrote after it was removed:
    folders without a manifest."""
    if not folder.is_dir():
        return []
    return sorted((int(m[1]), f) for f in folder.iterdir() if (m := VERSION.fullmatch(f.name)))


def _last(folder: Path) -> int:
    """Return the highest number that a version of a model ever had."""
    path = folder / "model.json"
    return int(read_json(path)["last_version"]) if path.exists() else 0


def _read(folder: Path) -> Manifest | None:
    """Read a version's manifest as it stands now; None where the version was dropped meanwhile."""
    try:
        manifest = read_manifest(folder)
        if manifest.status == "training" and not held(folder / "lock"):
            # It may have ended between the two looks.
            manifest = read_manifest(folder)
            if manifest.status == "training":
                return dataclasses.replace(manifest, status="interrupted")
    except FileNotFoundError:
        return None
    return manifest


def _served(folder: Path, manifests: Sequence[Manifest]) -> int | None:
    """Return the number of the version served: the promoted one while it is there, else the newest that is ready."""
    usable = {m.version for m in manifests if m.status in COMMITTED}
    if not usable:
        return None
    try:
        promoted = read_json(folder / "promoted.json")["version"]
    except FileNotFoundError:
        promoted = None
    if promoted in usable:
        return int(promoted)
    return max((m.version for m in manifests if m.status == "ready"), default=None)


def _place(folder: Path, manifest: Manifest) -> Lock:
    """Make the folder of a version in training, whole before it is seen, and return its lock."""
    draft = folder / f".draft-{uuid.uuid4().hex}"
    lock = Lock(draft / "lock", "trained")
    try:
        write_manifest(draft, manifest)
        with storing(folder):
            draft.rename(folder / f"v{manifest.version}")
            sync(folder)
    except BaseException:
        lock.release()
        raise
    return lock


def _renewed_lock(folder: Path) -> Lock:
    """Return the lock of a version that is opened again, made beside the old one, which others may be looking at."""
    for leftover in folder.glob(".lock-*"):
        clear(leftover)
    draft = folder / f".lock-{uuid.uuid4().hex}"
    lock = Lock(draft, "trained")
    try:
        with storing(folder):
            draft.replace(folder / "lock")
            sync(folder)
    except BaseException:
        lock.release()
        raise
    return lock


def _forget(folder: Path, number: int) -> None:
    """Undo the beginning of the newest version, and of its model where it was the first."""
    if number == 1:
        _trash(folder)
        return
    _trash(folder / f"v{number}")
    _set_last(folder, number - 1)


def _set_last(folder: Path, number: int) -> None:
    replace_text(folder / "model.json", json.dumps({"format": FORMAT, "last_version": number}))


def _trash_unread(version: Path) -> bool:
    """Remove the folder of a version, unless somebody reads it; tell whether it was removed."""
    with unshared(version / FILE) as unread:
        if unread:
            _trash(version)
    return unread


def _trash(folder: Path) -> None:
    """Remove a folder: out of sight in one step, which is the one that counts, then from the disk."""
    trash = folder.with_name(f".trash-{uuid.uuid4().hex}")
    with storing(folder):
        folder.rename(trash)
        sync(trash.parent)
    clear(trash)
