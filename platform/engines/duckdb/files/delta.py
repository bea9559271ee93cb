"""Delta tables as relations: the Parquet files that the table's log names, in the order in which they were written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ....errors import NotAvailableError, Position, StatementError
from ....local import local_path
from ....objects import is_object
from ....system import needing
from ...as_of import AsOf, moment_of
from ...parquet_files import schema_of
from .memory import MemorySource

if TYPE_CHECKING:
    from deltalake import DeltaTable

DELTA_OPTIONS = {"path": None, "versionasof": None, "timestampasof": None}


def delta_files(options: Mapping[str, str], position: Position | None) -> tuple[str, ...] | MemorySource:
    """Return the files of a Delta table, where they have its columns unchanged; otherwise a source that reads them as the log
    says.

    Raises:
        NotAvailableError: deltalake is not installed.
        StatementError: there is no such table or version, or it has features that deltalake cannot read.
    """
    table, rows = opened(options["path"], version_of(options, position), position)
    files = in_order(table)
    plain = files and not table.metadata().partition_columns and all(alike(schema_of(file), rows.schema) for file in files)
    return files if plain else MemorySource(rows)


def delta_version(path: str, as_of: AsOf | None) -> tuple[tuple[str, ...], int]:
    """Return the files of a version of a Delta table, by default of the newest, and its number.

    Raises:
        NotAvailableError, StatementError: see delta_files.
    """
    options = {} if as_of is None else {f"{as_of.kind.lower()}asof": as_of.value}
    table, _ = opened(path, version_of(options, None), None)
    return in_order(table), table.version()


def version_of(options: Mapping[str, str], position: Position | None) -> int | str | None:
    """Return the version that options ask for: a number, a time, None: the newest.

    Raises:
        StatementError: it is neither.
    """
    version, moment = options.get("versionasof"), options.get("timestampasof")
    if version is not None and moment is not None:
        raise StatementError("versionAsOf and timestampAsOf are two versions. Leave one out.", position)
    if version is not None and not version.isdecimal():
        raise StatementError(f"A version of a Delta table is a number, got {version!r}.", position)
    return int(version) if version is not None else None if moment is None else moment_of(moment, position).isoformat()


def opened(path: str, version: int | str | None, position: Position | None) -> tuple[DeltaTable, pa.dataset.Dataset]:
    """Return a Delta table, and its rows.

    Args:
        version: a number, or a time in ISO's form; None: the newest.
    """
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise NotAvailableError(needing("Delta tables need deltalake", "delta"), position) from error
    place = path if is_object(path) else str(local_path(path, "What a query reads", position))
    if not is_object(path) and not Path(place).exists():
        raise StatementError(f"The path {path} does not exist (looked for {place}). Check its spelling.", position)
    try:
        table = DeltaTable(place, version=version if isinstance(version, int) else None)
        if isinstance(version, str):
            table.load_as_version(version)
        return table, table.to_pyarrow_dataset()
    except (DeltaError, OSError, ValueError) as error:
        raise StatementError(f"{path} cannot be read as a Delta table: {error}.", position) from error


def in_order(table: DeltaTable) -> tuple[str, ...]:
    """Return the files of a table by the time at which they were added."""
    added = pa.table(table.get_add_actions(flatten=True)).select(["path", "modification_time"]).to_pylist()
    times = {row["path"]: row["modification_time"] for row in added}
    uris = table.file_uris()
    return tuple(sorted(uris, key=lambda uri: (next((t for path, t in times.items() if uri.endswith(path)), 0), uri)))


def alike(file: pa.Schema, table: pa.Schema) -> bool:
    """Return whether a file has the columns of a table in their order, with types that read the same."""
    return file.names == table.names and all(have.type == want.type for have, want in zip(file, table, strict=True))
