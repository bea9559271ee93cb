"""The files of rows of a version: the tables that each holds, and how rows get there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ps.messages import OFFERED, Keys
from ..training.row_files.columns import values
from .layout import Fill, RowColumn, unused

if TYPE_CHECKING:
    from ...warehouse.version import Version

Floats = NDArray[np.float32]


class FileOfTables(NamedTuple):
    """A file to write, of tables that have rows for the same keys.

    Attributes:
        columns: `first` is in the rows of this file.
    """

    file: str
    keys: Keys
    columns: tuple[RowColumn, ...]


def files_of(version: Version) -> list[FileOfTables]:
    """Return which files the tables of a version are written to: those with the same keys to one."""
    found: list[tuple[Keys, list[Any]]] = []
    for table in version.manifest.tables:
        keys = keys_of(version, table.name)
        same = next((tables for known, tables in found if np.array_equal(known, keys)), None)
        if same is None:
            found.append((keys, same := []))
        same.append(table)
    files = []
    for number, (keys, tables) in enumerate(found):
        columns: list[RowColumn] = []
        for table in tables:
            for name in ("w", OFFERED):
                floats = table.dim if name == "w" else table.columns.get(name, 0)
                if floats:
                    columns.append(RowColumn(table.name, name, sum(c.floats for c in columns), floats))
        files.append(FileOfTables(file_name(None if not number else tables[0].name), keys, tuple(columns)))
    return files


def file_name(table: str | None) -> str:
    """Return the name of the file of a table and of the tables with the same keys; None for the first one."""
    return "rows.bin" if table is None else f"rows.{table}.bin"


def keys_of(version: Version, table: str) -> Keys:
    batches = [batch.column(0).to_numpy().view(np.uint64) for batch in version.rows(table, ["key"])]
    return np.concatenate([np.empty(0, np.uint64), *batches])


def absent_of(files: Sequence[FileOfTables]) -> int:
    """Return a key that no row has."""
    return unused([file.keys for file in files])


def floats_of(version: Version, columns: Sequence[RowColumn]) -> Iterator[tuple[RowColumn, int, Keys, Floats]]:
    """Give the rows of a file in pieces of a column: from which row of the table on, their keys and their floats."""
    for table in dict.fromkeys(column.table for column in columns):
        own, at = [column for column in columns if column.table == table], 0
        for batch in version.rows(table, ["key", *(column.column for column in own)]):
            keys = batch.column(0).to_numpy().view(np.uint64)
            for column, array in zip(own, batch.columns[1:], strict=True):
                yield column, at, keys, np.ascontiguousarray(values(array).reshape(-1, column.floats), np.float32)
            at += len(keys)


def fill_from(
    version: Version,
    columns: Sequence[RowColumn],
    seen: Callable[[RowColumn, Keys, Floats, Floats], None],
    among: Keys | None = None,
) -> Fill:
    """Return a function that fills a file with the rows of a version.

    Args:
        seen: given rows as they are in the version, and as they are written.
        among: the keys of the file, ascending; None where it has all of the version's, in their order.
    """

    def fill(place: NDArray[np.int64], rows: NDArray[Any]) -> None:
        for column, at, keys, floats in floats_of(version, columns):
            written = floats.astype(rows.dtype)
            seen(column, keys, floats, written.astype(np.float32))
            to = place[at : at + len(keys)]
            if among is not None:
                found = np.searchsorted(among, keys)
                found[found == len(among)] = 0
                mine = np.flatnonzero(among[found] == keys) if len(among) else found[:0]
                to, written = place[found[mine]], written[mine]
            rows[to, column.first : column.first + column.floats] = written

    return fill


def unseen(column: RowColumn, keys: Keys, floats: Floats, written: Floats) -> None:
    pass


def training_of(version: Version) -> bytes:
    """Return 16 bytes that identify a training: its name, or, without one, a hash of when it began."""
    manifest = version.manifest
    named = manifest.training or hashlib.sha256(f"{manifest.created} {manifest.statement}".encode()).hexdigest()[:32]
    return bytes.fromhex(named)
