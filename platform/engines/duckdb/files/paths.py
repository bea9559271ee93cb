"""Files that a query names by path: a file, a folder or a glob, as Spark SQL finds them."""

from __future__ import annotations

import glob
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import pyarrow as pa

from ....errors import Position, StatementError
from ....local import local_path
from ....objects import below, is_object, located
from ....spark_types import quoted
from ...changes import NO_VALUE
from .partition_types import partition_kinds

PACKED = (".bz2", ".deflate", ".lz4", ".snappy", ".xz", ".zstd")
FAILURES = (OSError, EOFError, zlib.error, pa.ArrowException)
PARTITION = re.compile(r"(?P<name>[^=]+)=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True)
class Listing:
    """Files in the order of reading, and the columns that folders named `column=value` add, with DuckDB types."""

    files: tuple[str, ...]
    partitions: dict[str, str]

    @property
    def array(self) -> str:
        """The files as an array of DuckDB's SQL; characters of globs in their names stand for themselves."""
        return "[" + ", ".join(literal(glob.escape(file)) for file in self.files) + "]"

    @property
    def arguments(self) -> str:
        """The arguments of DuckDB's readers about partitions."""
        if not self.partitions:
            return "hive_partitioning = false"
        kinds = ", ".join(f"{literal(name)}: {'VARCHAR' if '(' in kind else kind}" for name, kind in self.partitions.items())
        return f"hive_partitioning = true, hive_types = {{{kinds}}}"

    @property
    def added(self) -> list[str]:
        """The columns of folders; DuckDB's readers make no decimals of their values."""
        return [
            f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" if "(" in kind else quoted(name)
            for name, kind in self.partitions.items()
        ]


def opener(file: str) -> Callable[..., IO[Any]]:
    """Return what opens a file for reading bytes, compressed or not.

    Raises:
        StatementError: it is compressed by what this engine does not read.
    """
    if file.endswith(PACKED):
        remedy = "Decompress it, or compress it by gzip (.gz) or zstd (.zst)"
        raise StatementError(f"{file} cannot be read: the embedded engine does not read its compression. {remedy}.")
    if is_object(file):
        return opened_object
    return gzip.open if file.endswith(".gz") else opened_zstd if file.endswith(".zst") else open


def opened_zstd(file: str, mode: str) -> IO[Any]:
    """Open a file that is compressed by zstd."""
    return io.BufferedReader(pa.CompressedInputStream(file, "zstd"))


def opened_object(uri: str, mode: str) -> IO[Any]:
    """Open a file of an object store for reading, compressed or not."""
    files, key = located(uri)
    return io.BufferedReader(files.open_input_stream(key))


def listing(path: str, position: Position | None) -> Listing:
    """Find the files of a path: the file itself, a folder's files in sorted order, or the files that a glob matches.

    Names that begin with `_` or `.` are skipped in folders.

    Raises:
        StatementError: nothing is there.
    """
    if is_object(path):
        return objects(path, position)
    local = local_path(path, "What a query reads", position)
    roots = [local] if local.exists() else [Path(p) for p in sorted(glob.glob(str(local))) if visible(Path(p))]  # noqa: PTH207
    if not roots:
        raise StatementError(f"The path {path} does not exist (looked for {local}). Check its spelling.", position)
    pairs = [pair for root in roots for pair in (files_below(root, {}) if root.is_dir() else [(str(root), {})])]
    if not pairs:
        raise StatementError(f"The folder {path} has no files to read.", position)
    return listed(pairs, path, position)


def objects(uri: str, position: Position | None) -> Listing:
    """Find the files of a URI: the file itself, or a folder's files in sorted order.

    Raises:
        StatementError: nothing is there, or the store does not answer.
    """
    try:
        found = below(uri.rstrip("/"))
    except OSError as error:
        raise StatementError(f"{uri} cannot be read: {error}.", position) from error
    root, pairs = uri.rstrip("/"), []
    for file in found:
        inside = file.removeprefix(root).strip("/")
        *folders, name = inside.split("/") if inside else [file]
        values = [PARTITION.fullmatch(folder) for folder in folders]
        if all(values) and all(visible(Path(part)) for part in (*folders, Path(name).name)):
            pairs.append((file, {match["name"]: unquote(match["value"]) for match in values if match}))
    if not pairs:
        reason = "there is no file, or none in folders named column=value; patterns are for local paths"
        raise StatementError(f"The path {uri} has no files to read: {reason}.", position)
    return listed(pairs, uri, position)


def visible(path: Path) -> bool:
    """Return whether Spark reads a file or folder of this name: `_x` and `.x` are hidden, but not a partition `_x=1`."""
    return not path.name.startswith(".") and not (path.name.startswith("_") and "=" not in path.name)


def files_below(folder: Path, values: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the files of a folder and of its partitions, with the partitions' values, in sorted order."""
    for path in sorted(folder.iterdir()):
        if not visible(path):
            continue
        if not path.is_dir():
            yield str(path), values
        elif match := PARTITION.fullmatch(path.name):
            yield from files_below(path, {**values, match["name"]: unquote(match["value"])})


def listed(pairs: Sequence[tuple[str, dict[str, str]]], path: str, position: Position | None) -> Listing:
    """Return files and the values that their folders give columns as a listing.

    Raises:
        StatementError: the folders of two files name other columns, or a folder has no value.
    """
    first, values = pairs[0]
    for file, others in pairs:
        if list(others) != list(values):
            names = " and ".join("/".join(f"{name}=..." for name in one) or "no such folder" for one in (values, others))
            message = f"Files of {path} are in folders of other columns, {names}: {first} and {file}."
            raise StatementError(f"{message} Name the folders alike, in the same letters and order.", position)
        if (empty := next((name for name, value in others.items() if not value), None)) is not None:
            message = f"The folder {empty}= of {file} has no value. Write {empty}={NO_VALUE} for NULL."
            raise StatementError(message, position)
    return Listing(tuple(file for file, _ in pairs), partition_kinds([found for _, found in pairs]))


def literal(value: str) -> str:
    """Return a text as a literal of DuckDB's SQL."""
    return "'" + value.replace("'", "''") + "'"
