"""An archive of what executors import: xpsql with its native modules, plugins, and the packages that these require."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from ..parts import ALGORITHM, OPERATOR

FOLDER = "xpsql_environment"
"""The folder that Spark unpacks the archive into, beside each process that it starts."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
OURS = "xpsql"
LEARNERS = ("xgboost", "xgboost-cpu")
"""What an algorithm imports in executors, where it is installed here."""
NOT_NEEDED = frozenset(("duckdb", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "prompt-toolkit", "pyspark", "py4j"))
"""What no driver on Spark and no executor uses, what Spark brings, and what only GPUs take."""
LEFT_SECONDS = 7 * 24 * 3600
SOURCES = frozenset((".py", ".typed", ".json", ".sql"))


def environment_archive() -> Path:
    """Return the path of the archive, made when the packages have changed since the last one.

    It lies in the user's cache folder. Archives that no job was submitted with for a week are removed, and those that were not
    finished; younger ones may belong to running jobs, which send them to executors that replace lost ones.
    """
    files = dict(package_files())
    for package in required((OURS, *(point.dist.name for point in offered() if point.dist), *LEARNERS)):
        files |= dict(files_of(package))
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xpsql"
    root.mkdir(parents=True, exist_ok=True)
    archive = root / f"environment-{state_of(files)}.zip"
    try:
        os.utime(archive)
    except FileNotFoundError:
        draft = archive.with_suffix(f".{os.getpid()}")
        write(files, draft)
        draft.rename(archive)
    for old in root.glob("environment-*"):
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            if time.time() - old.stat().st_mtime > LEFT_SECONDS:
                old.unlink()
    return archive


def offered() -> list[EntryPoint]:
    """Return the algorithms and operators of other packages."""
    return [*ALGORITHM.plugged(), *OPERATOR.plugged()]


def required(roots: Iterable[str]) -> list[Distribution]:
    """Return some packages and those that they require, directly or not, where they are installed.

    Of xpsql that is what its extra `spark` requires too, and not itself: it is packed from where it is imported.
    """
    found: dict[str, Distribution] = {}
    waiting = list(roots)
    while waiting:
        name = normal(waiting.pop())
        if name in found or name in NOT_NEEDED:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # required on another system, or for another version of Python
        found[name] = package
        waiting += [requirement for requirement in package.requires or () if wanted(requirement, name == OURS)]
    return [package for name, package in found.items() if name != OURS]


def normal(requirement: str) -> str:
    """Return a requirement's name as packages are compared by: `Opt_Einsum>=3` is opt-einsum."""
    match = NAME.match(requirement)
    assert match is not None  # metadata has names
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def wanted(requirement: str, ours: bool) -> bool:
    """Return whether a requirement holds without extras, or for our extra `spark`."""
    marker = requirement.partition(";")[2]
    return "extra" not in marker or (ours and re.search(r"""extra == ['"]spark['"]""", marker) is not None)


def files_of(package: Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the files of an installed package: place in the archive, and path."""
    for file in package.files or ():
        if ".." not in file.parts and file.suffix != ".pyc":
            yield file.as_posix(), Path(str(file.locate()))


def package_files() -> Iterator[tuple[str, Path]]:
    """Yield the files of xpsql and of plugins; an installation for editing has them, and native modules, elsewhere."""
    from xpsql.algorithms.layers import _lookups
    from xpsql.platform.ps import _native
    from xpsql.warehouse import _mapping

    for module in {OURS, *(point.module.partition(".")[0] for point in offered())}:
        yield from sources(module)
    for name, path in files_of(distribution(OURS)):
        if ".dist-info/" in name:  # the version, and plugins
            yield name, path
    for built in (_native, _lookups, _mapping):
        native = Path(str(built.__file__))
        yield f"{built.__name__.rpartition('.')[0].replace('.', '/')}/{native.name}", native


def sources(module: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a package's folders, without importing it."""
    spec = find_spec(module)
    for root in (spec and spec.submodule_search_locations) or ():
        for folder, _, names in os.walk(root, followlinks=True):
            for path in (Path(folder) / name for name in names):
                if path.suffix in SOURCES:
                    yield (Path(module) / path.relative_to(root)).as_posix(), path


def state_of(files: dict[str, Path]) -> str:
    """Return a text that is another when a file, or Python, is another."""
    digest = hashlib.sha256(sys.version.encode())
    for name, path in sorted(files.items()):
        stat = path.stat()
        digest.update(f"{name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def write(files: dict[str, Path], archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for name, path in sorted(files.items()):
            packed.write(path, name)
