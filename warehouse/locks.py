"""Advisory locks on models and versions, which the system releases when a process ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from ..platform.errors import ModelError
from .durable import make_folder, storing


class Lock:
    """An exclusive lock on a file, held until `release` or the end of the process.

    Args:
        path: the lock's file; made where absent, never removed.
        doing: what the holder does, for the message that others get: "trained".

    Raises:
        BlockingIOError: somebody holds it.
        ModelError: the file cannot be made or written.
    """

    def __init__(self, path: Path, doing: str) -> None:
        with _not_blocking(path):
            self._descriptor = _lock(path)
        note = {"doing": doing, "process": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        try:
            with storing(path):
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, json.dumps(note).encode(), 0)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextlib.contextmanager
def _not_blocking(path: Path) -> Iterator[None]:
    """Report the errors of a file that cannot be made, and leave BlockingIOError, the answer of a busy lock, as it is."""
    busy: BlockingIOError | None = None
    with storing(path):
        try:
            yield
        except BlockingIOError as error:
            busy = error
    if busy:
        raise busy


def _lock(path: Path) -> int:
    """Return the descriptor of the locked file at `path`, which may be moved away between its opening and its locking."""
    while True:
        make_folder(path.parent)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _in_place(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _in_place(path: Path, descriptor: int) -> bool:
    """Return whether an open file is still the one at `path`."""
    return path.exists() and os.path.samestat(os.fstat(descriptor), path.stat())


@contextlib.contextmanager
def shared(path: Path) -> Iterator[bool]:
    """Share the lock of a file, so that `unshared` says no until the block ends, in any process.

    Gives False where the file has gone, or is about to be moved away. A process that may not lock here shares nothing.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _locks(descriptor, fcntl.LOCK_SH) and _in_place(path, descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def unshared(path: Path) -> Iterator[bool]:
    """Return whether nobody shares the lock of a file; nobody can until the block ends."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # it has gone, or may not be locked
        yield True
        return
    try:
        yield _locks(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def _locks(descriptor: int, how: int) -> bool:
    """Lock an open file, where its filesystem can; return whether no other lock is in the way."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def held(path: Path) -> bool:
    """Return whether somebody holds the lock of a file.

    The question takes a shared lock for an instant, so it is asked only of locks that are taken once, before others can
    see their file: a version's, never a model's; and by who waits for the holder to end.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def busy(path: Path, model: str) -> ModelError:
    """Return the error that names the holder of a model's lock."""
    with contextlib.suppress(OSError, ValueError):
        note = json.loads(path.read_text())
        who = f"process {note['process']} since {note['since']}"
        return ModelError(f"Model {model} is being {note['doing']} by {who}. Wait until it ends, or end that process.", model)
    return ModelError(f"Model {model} is being changed by another process. Wait until it ends.", model)
