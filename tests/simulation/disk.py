"""The disk of a world: a real folder, of which a power cut takes back what was not synced, and whose calls fail on request.

What a file held when it was synced last, and the names that a folder had, are kept by the number of their inode. After a power
cut each folder has its synced names, or the current ones; each file what was synced, what was written, or a part of that.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.simulation.world import World

CALLS = ("rename", "replace", "unlink", "remove", "rmdir", "mkdir", "link", "fsync", "pwrite", "ftruncate")
FLAGS = os.O_WRONLY | os.O_RDWR


class Disk:
    """A folder of the machine as a disk.

    Args:
        root: what it holds; nothing else is lost.

    Attributes:
        failing: the error of calls that change it, and how many more fail; None: they work.
    """

    def __init__(self, world: World, root: Path) -> None:
        self._world = world
        self._root = root
        self.failing: tuple[int, int] | None = None
        self._names: dict[int, dict[str, int]] = {}
        self._contents: dict[int, bytes] = {}
        self._linked: set[int] = set()  # files that were given a second name
        self._real = {name: getattr(os, name) for name in (*CALLS, "open", "close")}
        self._io_open = io.open
        self.settle()

    def settle(self) -> None:
        """Take all that there is for synced."""
        self._names, self._contents = self._held()

    def _held(self) -> tuple[dict[int, dict[str, int]], dict[int, bytes]]:
        """Return the names in each folder and the content of each file by inode, in order of their paths."""
        names, contents = dict[int, dict[str, int]](), dict[int, bytes]()

        def hold(folder: str, inode: int) -> None:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
            names[inode] = {entry.name: entry.inode() for entry in entries}
            for entry in entries:
                if entry.is_dir():
                    hold(entry.path, entry.inode())
                else:
                    with self._io_open(entry.path, "rb") as file:
                        contents[entry.inode()] = file.read()

        hold(str(self._root), self._root.stat().st_ino)
        return names, contents

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        """Let the fibers' calls go through it."""
        for name in CALLS:
            setattr(os, name, self._call(name))
        os.open, os.close, io.open = self._opened, self._closed, self._file_opened  # type: ignore[assignment]
        try:
            yield
        finally:
            for name, real in self._real.items():
                setattr(os, name, real)
            io.open = self._io_open

    def happens(self, kind: str) -> None:
        """Come to a call that changes the disk.

        Raises:
            OSError: the disk fails now.
        """
        self._world.step(f"disk {kind}")
        if self.failing is not None:
            number, left = self.failing
            self.failing = (number, left - 1) if left > 1 else None
            self._world.say(f"{kind} fails")
            raise OSError(number, os.strerror(number))

    def _call(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(*args: Any, **named: Any) -> Any:
            if not self._world.inside:
                return real(*args, **named)
            self.happens(name)
            if name == "link":
                self._linked.add(Path(args[0]).stat().st_ino)
            if name != "fsync":
                return real(*args, **named)
            self._synced(args[0])
            return None

        return call

    def _opened(self, path: Any, flags: int, *args: Any, **named: Any) -> int:
        if not self._world.inside:
            return int(self._real["open"](path, flags, *args, **named))
        if flags & FLAGS:
            self.happens("open")
        descriptor = int(self._real["open"](path, flags, *args, **named))
        assert self._world.current is not None
        self._world.current.process.descriptors.add(descriptor)
        return descriptor

    def _closed(self, descriptor: int) -> None:
        if self._world.inside:
            assert self._world.current is not None
            process = self._world.current.process
            if descriptor not in process.descriptors and not process.alive:
                return  # its death closed it
            process.descriptors.discard(descriptor)
        self._real["close"](descriptor)

    def _file_opened(self, file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
        if self._world.inside and not mode.startswith("r"):
            self.happens("write")
        return self._io_open(file, mode, *args, **named)

    def _synced(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            self._names[found.st_ino] = names_of(path)
        else:
            with self._io_open(f"/proc/self/fd/{descriptor}", "rb") as file:
                self._contents[found.st_ino] = file.read()

    def cut_power(self) -> None:
        """Leave what a power cut does; nobody may be at work."""
        random, (names, files) = self._world.random, self._held()
        kept = random.choice(("synced", "all", "some", "some"))

        def is_kept() -> bool:
            return kept == "all" or (kept == "some" and random.random() < 0.5)

        left = {}
        for inode in dict.fromkeys((*names, *self._names)):
            now, synced = names.get(inode), self._names.get(inode, {})
            left[inode] = now if now is not None and (now == synced or is_kept()) else synced
        held = {one for listing in self._names.values() for one in listing.values()}
        named = {one for listing in left.values() for one in listing.values()}
        for inode, now in names.items():  # a move from one folder to another is whole: what was somewhere is somewhere
            left[inode] = left[inode] | {n: one for n, one in now.items() if one in held and one not in named}
        contents = {}
        for inode in dict.fromkeys((*files, *self._contents)):
            now_bytes, synced_bytes = files.get(inode), self._contents.get(inode, b"")
            if now_bytes is None or now_bytes == synced_bytes:
                contents[inode] = synced_bytes
            elif is_kept():
                contents[inode] = now_bytes
            else:
                contents[inode] = synced_bytes if kept == "synced" else torn(now_bytes, synced_bytes, random.random())
        fresh = self._root.with_name(self._root.name + ".new")
        build(fresh, self._root.stat().st_ino, left, contents, set(), self._linked)
        self._linked = set()
        shutil.rmtree(self._root)
        fresh.rename(self._root)
        self.settle()
        self._world.say(f"power is cut, {kept} of what was not synced is left")


def names_of(folder: Path) -> dict[str, int]:
    """Return the names in a folder and their inodes."""
    with os.scandir(folder) as found:
        return {entry.name: entry.inode() for entry in sorted(found, key=lambda entry: entry.name)}


def torn(written: bytes, synced: bytes, share: float) -> bytes:
    """Return a file of which a part was written; what follows is zeros, or missing."""
    least = len(synced) if written.startswith(synced) else 0
    stop = least + int(share * (len(written) - least))
    return written[:stop] + bytes(0 if share < 0.5 else len(written) - stop)


def build(
    path: Path,
    inode: int,
    names: dict[int, dict[str, int]],
    contents: dict[int, bytes],
    seen: set[int],
    linked: set[int],
) -> None:
    """Make a folder with all in it; what stands twice is made once, but for files that were linked."""
    path.mkdir()
    for name, one in names.get(inode, {}).items():
        if one in seen and one not in linked:
            continue
        seen.add(one)
        if one in names:
            build(path / name, one, names, contents, seen, linked)
        else:
            (path / name).write_bytes(contents.get(one, b""))


class Files:
    """A filesystem of Arrow whose calls that change something come to the disk."""

    CHANGES = ("create_dir", "open_output_stream", "move", "delete_dir", "delete_file")

    def __init__(self, real: Any, disk: Disk) -> None:
        self._real, self._disk = real, disk

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)
        if name not in self.CHANGES:
            return call

        def changed(*args: Any, **named: Any) -> Any:
            if self._disk._world.inside:
                self._disk.happens(name)
            return call(*args, **named)

        return changed


FAILURES: Sequence[int] = (errno.ENOSPC, errno.EIO)
