"""Files that a query names by path: a file, a folder or a glob, as Spark SQL finds them."""

from __future__ import annotations

import glob
import gzip
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from ....errors import Position, StatementError
from ....local import local_path
from ....objects import below, is_object, located

PARTITION = re.compile(r"(?P<name>[^=]+)=(?P<value>.*)", re.DOTALL)
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
KINDS = (
    ("INTEGER", re.compile(r"[+-]?\d{1,9}")),
    ("BIGINT", re.compile(r"[+-]?\d{1,18}")),
    ("DOUBLE", re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")),
    ("DATE", re.compile(r"\d{4}-\d{2}-\d{2}")),
)


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
        kinds = ", ".join(f"{literal(name)}: {kind}" for name, kind in self.partitions.items())
        return f"hive_partitioning = true, hive_types = {{{kinds}}}"


def opener(file: str) -> Callable[..., IO[Any]]:
    """Return what opens a file, compressed or not."""
    if is_object(file):
        return opened_object
    return gzip.open if file.endswith(".gz") else open


def opened_object(uri: str, mode: str, **how: Any) -> IO[Any]:
    """Open a file of an object store for reading, compressed or not."""
    files, key = located(uri)
    stream = io.BufferedReader(files.open_input_stream(key))
    return io.TextIOWrapper(stream, **how) if mode == "rt" else stream


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
    return Listing(tuple(file for file, _ in pairs), partition_kinds([values for _, values in pairs]))


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
    return Listing(tuple(file for file, _ in pairs), partition_kinds([values for _, values in pairs]))


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


def partition_kinds(values: Sequence[dict[str, str]]) -> dict[str, str]:
    """Return the type of each partition column: the first that all its values have."""
    names = dict.fromkeys(name for value in values for name in value)
    return {name: kind_of([value[name] for value in values if value.get(name, NO_VALUE) != NO_VALUE]) for name in names}


def kind_of(values: Sequence[str]) -> str:
    for kind, pattern in KINDS:
        if values and all(pattern.fullmatch(value) for value in values):
            return kind
    return "VARCHAR"


def literal(value: str) -> str:
    """Return a text as a literal of DuckDB's SQL."""
    return "'" + value.replace("'", "''") + "'"
