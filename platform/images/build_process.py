"""The weights of a version made by a process of its own, which computes while cores have nothing else to do: requests that are
answered meanwhile wait neither for it nor for Python's lock.

    python -m xpsql.platform.images.build_process VERSION HALF FOLDER [BASE ...]

It leaves what VERSION has to lay over the images BASE as files of FOLDER, named by the number of the base; where that does not
pay it makes the version's own images, in their own place, and leaves none. What it says goes to stdout.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ...warehouse.folders import read_version
from ...warehouse.version import Version
from ..errors import ModelError
from .image import ImageWeights, MappedRows, Report, images_of
from .layout import opened
from .overlay import made, overs_of, ready, weights_of

SMALL_ROWS = 100_000
"""What has less is made ready sooner than a process begins."""
LOOK_SECONDS, STOP_SECONDS = 0.05, 5.0
MOST_SECONDS = 120.0
"""How long the process may take; where cores are never free, the caller then does its work."""
DONE = "done"
"""A file of FOLDER: its other files are all that VERSION lays over the bases."""


def weights_apart(
    version: Version, half: bool, bases: Sequence[MappedRows], report: Report, stopping: threading.Event
) -> ImageWeights:
    """Return the parameters of a version; see weights_of.

    Args:
        stopping: ends the process, and with it this call.

    Raises:
        ModelError: the process failed, or was ended.
    """
    if (found := ready(version, half, bases, report)) is not None:
        return found
    if (version.manifest.learned.rows or 0) < SMALL_ROWS or any(base.path is None for base in bases):
        return made(version, half, bases, report)
    with tempfile.TemporaryDirectory(prefix="xpsql-serve-") as name:
        folder = Path(name)
        arguments = [str(version.folder), str(int(half)), name, *(str(base.path) for base in bases)]
        if not _ended(arguments, report, stopping):
            return made(version, half, bases, report)
        if not (folder / DONE).exists():
            return weights_of(version, half, (), report)
        paths = [folder / str(number) for number in range(len(bases))]
        return ImageWeights(version, bases, [opened(path)[1] if path.exists() else None for path in paths])


def _ended(arguments: Sequence[str], report: Report, stopping: threading.Event) -> bool:
    """Run the process; return whether it did its work in time."""
    deadline, late = time.monotonic() + MOST_SECONDS, False
    with tempfile.TemporaryFile("w+") as said:
        command = [sys.executable, "-m", __name__, *arguments]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT) as process:
            while not late and process.poll() is None and not stopping.wait(LOOK_SECONDS):
                late = time.monotonic() > deadline
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        said.seek(0)
        lines = said.read().splitlines()
    if late:
        return False
    if process.returncode:
        raise ModelError(f"The process that makes images ended with {process.returncode}: {' '.join(lines[-1:])}")
    for line in lines:
        report(line)
    return True


def main(folder: str, half: str, to: str, *paths: str) -> None:
    """Do what the process does."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # files that are begun are removed
    with contextlib.suppress(AttributeError, OSError):  # elsewhere than on Linux
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    manifest = read_version(Path(folder))
    if manifest is None:
        sys.exit(f"The version in {folder} was dropped.")
    version = Version(Path(folder), manifest, served=False)
    bases = [MappedRows(path, *opened(path)) for path in map(Path, paths)]
    overs = overs_of(version, bases) if bases else None
    if overs is None:
        images_of(version, bool(int(half)), lambda line: print(line, flush=True))
        return
    for number, over in enumerate(overs):
        if over is not None:
            over.tofile(Path(to) / str(number))
    (Path(to) / DONE).touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
