"""Durable, atomic writes: a kill or a power cut leaves the old file or the new one; errors say what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from ..platform.errors import ModelError

NO_LOCKS = "Its filesystem does not lock files or link them: choose a warehouse on one that does"
NO_LINKS = (errno.EPERM, errno.EMLINK, errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS)
REMEDIES = {
    errno.ENOSPC: "The disk is full: free space",
    errno.EDQUOT: "The disk quota is used up: free space",
    errno.EFBIG: "The file is larger than this process may write: raise the limit (ulimit -f)",
    errno.EACCES: "It is not writable: change its permissions",
    errno.EPERM: "It is not writable: change its permissions",
    errno.ELOOP: "It is a link, which may lead out of the warehouse: remove it",
    errno.EROFS: "It is on a read-only disk: choose another warehouse",
    **dict.fromkeys((errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS), NO_LOCKS),
}


@contextlib.contextmanager
def storing(path: Path, check: str = "Check the disk and the warehouse's path") -> Iterator[None]:
    """Turn the errors of writing a file or folder into a ModelError that names it and the remedy.

    Args:
        check: the remedy where the error tells none.
    """
    try:
        yield
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, check)
        raise ModelError(f"Cannot write {path}: {reason(error)}. {remedy}, then run the statement again.") from error


def own(path: Path) -> Path:
    """Return the path of a file that is written where it stands, which no link may stand for.

    Raises:
        OSError: one does, as in a folder that was copied from elsewhere.
    """
    if path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return path


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where they are not there; their names are on the disk afterwards."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync(path.parent)


def sync_names(folder: Path, root: Path) -> None:
    """Wait until the names in a folder and in all above it are on the disk, and the name of `root`, which is one of them.

    Whoever made one of them may have been killed, or have failed, before its name was there.
    """
    for path in (folder, *folder.parents):
        if path == root.parent:
            with contextlib.suppress(PermissionError):  # it may be somebody else's, and closed to us
                sync(path)
            return
        sync(path)


@contextlib.contextmanager
def creating(path: Path) -> Iterator[None]:
    """Make the folder of a file that the block writes; the file and its name are on the disk afterwards."""
    with storing(path):
        make_folder(path.parent)
        yield
        sync(path)
        sync(path.parent)


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn the errors of looking into a file or folder into a ModelError that names it."""
    try:
        yield
    except OSError as error:
        remedy = "Check that it can be reached, and its permissions"
        raise ModelError(f"Cannot read {path}: {reason(error)}. {remedy}, then run the statement again.") from error


def reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def replace_text(path: Path, text: str) -> None:
    """Replace a file atomically and durably: readers see the old text or the new one, also after a power cut.

    Raises:
        ModelError: it cannot be written; the old text stays.
    """
    with storing(path):
        while not _replaced(path, text):
            pass
        sync(path.parent)


def _replaced(path: Path, text: str) -> bool:
    """Replace a file; False where its draft was taken for what a killed process left, and removed, by a process that changes
    the model."""
    draft = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        draft.write_text(text, encoding="utf-8")
        sync(draft)
        draft.replace(path)
    except FileNotFoundError:
        if draft.exists() or not path.parent.is_dir():
            raise
        return False
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return True


def link_tree(folder: Path, to: Path) -> None:
    """Give the files below a folder, which nobody changes any more, a second name each in a new folder; copies where the
    filesystem links none."""
    to.mkdir()
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            link_tree(path, to / path.name)
            continue
        try:
            os.link(path, to / path.name)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            shutil.copyfile(path, to / path.name)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Wait until every file and folder below `folder`, and itself, is on the disk."""
    for parent, _, files in os.walk(folder, topdown=False):
        for file in files:
            sync(Path(parent, file))
        sync(Path(parent))


def remove(folder: Path) -> None:
    """Remove a folder and all in it; one that is gone, or goes meanwhile, is fine."""
    with storing(folder):
        while folder.exists():
            # Another process may be removing the same leftovers.
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(folder)


def clear(path: Path) -> None:
    """Remove a file or folder of no use, as far as that is possible: what stays only takes space, until a later change."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
