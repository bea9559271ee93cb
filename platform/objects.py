"""Files of object stores, by URIs: s3://bucket/key (s3a:// for Spark), gs://, abfss://; beside them local paths, as they are.

The environment configures a store and its credentials, as for its own tools: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID;
GOOGLE_APPLICATION_CREDENTIALS; AZURE_CLIENT_ID.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from .errors import ModelError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

SCHEMES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss")

ARROWS = {"s3a": "s3"}
"""Scheme of a store, as Spark names it -> as Arrow does."""


class Stamp(NamedTuple):
    """Bytes of a file, and when it was written, in nanoseconds; they identify the file's content."""

    size: int
    modified: int


def is_object(path: str) -> bool:
    """Return whether a path is a URI of an object store."""
    return path.partition("://")[0].lower() in SCHEMES and "://" in path


def located(uri: str) -> tuple[FileSystem, str]:
    """Return the filesystem of a URI, and the path in it.

    Raises:
        OSError: no filesystem answers to it.
    """
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    files, root = _store(f"{ARROWS.get(scheme.lower(), scheme.lower())}://{bucket}")
    return files, f"{root.rstrip('/')}/{key}".rstrip("/")


@lru_cache(maxsize=64)
def _store(bucket: str) -> tuple[FileSystem, str]:
    from pyarrow.fs import FileSystem

    try:
        files, root = FileSystem.from_uri(bucket)
    except (pa.ArrowException, ValueError) as error:
        raise OSError(str(error)) from error
    return files, root


def stamp(path: str) -> Stamp:
    """Return the size and the time of a file.

    Raises:
        OSError: it is not there, or its store does not answer.
    """
    if not is_object(path):
        stat = Path(path).stat()
        return Stamp(stat.st_size, stat.st_mtime_ns)
    files, key = located(path)
    info = files.get_file_info(key)
    if not info.is_file:
        raise FileNotFoundError(2, "no such object", path)
    return Stamp(info.size, info.mtime_ns)


def below(uri: str) -> list[str]:
    """Return the URIs of the files of a folder of a store, and of those below it, sorted; of a file its own.

    Raises:
        OSError: the store does not answer.
    """
    from pyarrow.fs import FileSelector

    files, key = located(uri)
    info = files.get_file_info(key)
    if info.is_file:
        return [uri]
    found = files.get_file_info(FileSelector(key, recursive=True, allow_not_found=True))
    # Paths have no account of the URI, gs://anonymous@bucket or abfss://container@account.dfs.core.windows.net.
    return sorted(f"{uri.rstrip('/')}{one.path.removeprefix(key)}" for one in found if one.is_file)


def read(path: str) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: it cannot be read.
    """
    if not is_object(path):
        return Path(path).read_bytes()
    files, key = located(path)
    with files.open_input_file(key) as file:
        return bytes(file.read())


def upload(folder: Path, uri: str, last: str) -> None:
    """Put the files of a local folder into one of a store, in the place of those that are there.

    Readers see files come one by one; the one named `last`, if there is one, after all others.

    Raises:
        ModelError: the store does not take them.
    """
    files, key = located(uri)
    new = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    try:
        before = below(uri)
        for name in sorted(new, key=lambda name: (name == last, name)):
            with files.open_output_stream(f"{key}/{name}") as out, new[name].open("rb") as source:
                while part := source.read(1 << 23):
                    out.write(part)
        kept = {f"{uri.rstrip('/')}/{name}" for name in new}
        for old in before:
            if old not in kept:
                _delete(files, located(old)[1])
    except OSError as error:
        raise ModelError(f"{uri} cannot be written: {error}. Look at its permissions, and run the statement again.") from error


def _delete(files: FileSystem, key: str) -> None:
    """Delete an object; Arrow then makes a marker of its folder, which not every store takes."""
    try:
        files.delete_file(key)
    except OSError:
        if files.get_file_info(key).is_file:
            raise
