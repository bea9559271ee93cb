"""The folders of a model and of its versions: listing, reading their manifests, creating and removing them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path

from ..platform.errors import ModelError, NewerFormatError
from .chains.links import KEPT, WHOLE, Ancestor, needed, read_known
from .draft import DATA, RESUMED, VECTORS
from .durable import clear, replace_text, storing, sync
from .locks import Lock, held, unshared
from .manifest import FILE, FORMAT, Manifest, Status, read_json, write_manifest
from .names import model_name
from .version import Version

COMMITTED = ("ready", "held")
UNREADABLE = ("damaged", "newer format")
"""Versions that may be committed, and whose manifests cannot be read."""
LOCK = "lock"
PROMOTED = "promoted.json"
VERSION = re.compile(r"v([1-9][0-9]*)")


def newest_interrupted(versions: Sequence[Version]) -> Version | None:
    """Return the newest version whose training was interrupted and can be resumed, if there is one."""
    waiting = (v for v in reversed(versions) if v.manifest.status == "interrupted" and v.manifest.begun)
    return next(waiting, None)


def leftovers(manifest: Manifest) -> tuple[str, ...]:
    """Return the obsolete folders of a version."""
    if manifest.status in COMMITTED:
        return (*RESUMED, "saved")
    if manifest.status in ("training", *UNREADABLE) or not is_known(manifest):
        return ()
    return DATA if manifest.status == "interrupted" and manifest.begun else (*DATA, *RESUMED, VECTORS)


def is_known(manifest: Manifest) -> bool:
    """Return whether a manifest could be read: another one has only its model, number, status and error."""
    return manifest.created is not None


def listed(versions: Sequence[Version]) -> str:
    return ", ".join(f"{v.number} ({v.manifest.status})" for v in versions)


def name_pattern(like: str) -> re.Pattern[str]:
    wild = {"%": ".*", "*": ".*", "_": "."}
    return re.compile("".join(wild.get(c) or re.escape(c) for c in like), re.IGNORECASE | re.DOTALL)


def version_numbers(folder: Path) -> list[int]:
    """Return the numbers of the versions in a model's folder, sorted; none where it is absent."""
    return [number for number, version in version_folders(folder) if is_version(version)]


def is_version(folder: Path) -> bool:
    """Return whether a folder is a version's, with a manifest or one that was lost: its lock came with it, and stays until the
    version is dropped. What tasks write late has neither."""
    return (folder / FILE).exists() or ((folder / LOCK).exists() and not (folder / KEPT).exists())


def version_folders(folder: Path) -> list[tuple[int, Path]]:
    """Return the numbers and folders of versions, sorted, and what tasks of a training that failed wrote after it was removed:
    folders without a manifest."""
    if not folder.is_dir():
        return []
    return sorted((int(m[1]), f) for f in folder.iterdir() if (m := VERSION.fullmatch(f.name)))


def last_number(folder: Path) -> int:
    """Return the highest number that a version of a model ever had."""
    path = folder / "model.json"
    return int(read_json(path)["last_version"]) if path.exists() else 0


def read_version(folder: Path) -> Manifest | None:
    """Read a version's manifest as it stands now; None where the version was dropped meanwhile.

    Which model and version it is, the folder says: a manifest that was copied with its folder is not believed.
    """
    try:
        manifest = of_folder(folder)
        if manifest.status == "training" and not held(folder / LOCK):
            # It may have ended between the two reads.
            manifest = of_folder(folder)
            if manifest.status == "training":
                return dataclasses.replace(manifest, status="interrupted")
    except FileNotFoundError:
        return unread(folder, "damaged", f"{folder / FILE} is gone. Restore it from a backup.") if is_version(folder) else None
    except NewerFormatError as error:
        return unread(folder, "newer format", str(error))
    except ModelError as error:
        return unread(folder, "damaged", str(error))
    return manifest


def unread(folder: Path, status: Status, error: str) -> Manifest:
    """Return what is known of a version whose manifest cannot be read; of a training that had not ended its files tell that."""
    unfinished = any((folder / name).exists() for name in (*RESUMED, "saved"))
    return Manifest(model_name(folder.parent.name), number_of(folder), "interrupted" if unfinished else status, error=error)


def of_folder(folder: Path) -> Manifest:
    """Return the manifest of a version's folder, as that of the model and version that the folder is."""
    return dataclasses.replace(read_known(folder, FILE), model=model_name(folder.parent.name), version=number_of(folder))


def number_of(folder: Path) -> int:
    """Return the number of the version that a folder is named by."""
    return int(folder.name.removeprefix("v"))


def served_number(folder: Path, manifests: Sequence[Manifest]) -> int | None:
    """Return the number of the version served: the promoted one while it is there, else the newest that is ready.

    One whose manifest cannot be read keeps its place: statements fail, as an older version would answer otherwise than the one
    that was served.
    """
    usable = {m.version for m in manifests if m.status in (*COMMITTED, *UNREADABLE)}
    if not usable:
        return None
    try:
        promoted = read_json(folder / PROMOTED)["version"]
    except FileNotFoundError:
        promoted = None
    if promoted in usable:
        return int(promoted)
    return max((m.version for m in manifests if m.status in ("ready", *UNREADABLE)), default=None)


def place_draft(folder: Path, manifest: Manifest) -> Lock:
    """Make the folder of a version in training, whole before it is seen, and return its lock."""
    draft = folder / f".draft-{uuid.uuid4().hex}"
    lock = Lock(draft / LOCK, "trained")
    try:
        write_manifest(draft, manifest)
        with storing(folder):
            draft.rename(folder / f"v{manifest.version}")
            sync(folder)
    except BaseException:
        lock.release()
        raise
    return lock


def renewed_lock(folder: Path) -> Lock:
    """Return the lock of a version that is opened again, made beside the old one, which others may be looking at."""
    for leftover in folder.glob(".lock-*"):
        clear(leftover)
    draft = folder / f".lock-{uuid.uuid4().hex}"
    lock = Lock(draft, "trained")
    try:
        with storing(folder):
            draft.replace(folder / LOCK)
            sync(folder)
    except BaseException:
        lock.release()
        raise
    return lock


def forget(folder: Path, number: int) -> None:
    """Undo the start of the newest version, and of its model where it was the first."""
    if number == 1:
        trash(folder)
        return
    trash(folder / f"v{number}")
    set_last_number(folder, number - 1)


def set_last_number(folder: Path, number: int) -> None:
    replace_text(folder / "model.json", json.dumps({"format": FORMAT, "last_version": number}))


def trash_unread(version: Path, others: Sequence[Version] = ()) -> bool:
    """Remove the folder of a version, unless somebody reads it; return whether it was removed.

    Args:
        others: the remaining versions, which may be read from it.
    """
    with unshared(version / FILE) as unread:
        if unread:
            remove_version(version, others)
    return unread


def remove_version(version: Path, others: Sequence[Version]) -> None:
    """Remove a version, out of sight in one step; its rows stay as long as other versions are read from them."""
    if number_of(version) not in needed_by(others) or not (version / FILE).exists():
        trash(version)
        return
    with storing(version):
        (version / FILE).rename(version / KEPT)
        sync(version)
    clear_kept(version)


def clear_kept(version: Path) -> None:
    """Remove what is not needed of a dropped version: all but its rows and their list."""
    for path in version.iterdir():
        if path.name not in (KEPT, WHOLE, "rows", "tombstones"):
            clear(path)


def needed_by(versions: Sequence[Version]) -> Collection[int]:
    """Return the numbers of the versions that some are read from; all where that is not known."""
    if any(not is_known(version.manifest) for version in versions):
        return range(1 << 62)
    found: set[int] = set()
    for version in versions:
        with contextlib.suppress(ModelError):  # what it needs is gone
            needed(Ancestor(version.number, version.folder, version.manifest), found)
    return found


def trash_whole(version: Path, readers: Sequence[Path]) -> bool:
    """Remove a version's compacted rows, unless somebody reads a version that depends on them."""
    with contextlib.ExitStack() as stack:
        unread = all(stack.enter_context(unshared(reader / FILE)) for reader in readers)
        if unread:
            trash(version / WHOLE, version.parent)
    return unread


def trash(folder: Path, into: Path | None = None) -> None:
    """Remove a folder: out of sight in one step, which is the one that counts, then from the disk.

    Args:
        into: the folder whose leftovers are looked after; the one above where None.
    """
    removed = (folder.parent if into is None else into) / f".trash-{uuid.uuid4().hex}"
    with storing(folder):
        folder.rename(removed)
        sync(folder.parent)
        sync(removed.parent)
    clear(removed)
