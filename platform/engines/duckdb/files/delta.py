"""Delta tables as relations: the Parquet files that the table's log names, in the order in which they were written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from ....errors import NotAvailableError, Position, StatementError
from ....local import local_path
from ....objects import is_object
from ....system import needing
from ...parquet_files import schema_of
from .memory import MemorySource

if TYPE_CHECKING:
    from deltalake import DeltaTable

DELTA_OPTIONS = {"path": None, "versionasof": None}


def delta_files(options: Mapping[str, str], position: Position | None) -> tuple[str, ...] | MemorySource:
    """Return the files of a Delta table, where they have its columns unchanged; otherwise a source that reads them as the log
    says.

    Raises:
        NotAvailableError: deltalake is not installed.
        StatementError: there is no such table or version, or it has features that deltalake cannot read.
    """
    version = options.get("versionasof")
    if version is not None and not version.isdecimal():
        raise StatementError(f"The option versionAsOf takes a number, got {version!r}.", position)
    table, rows = opened(options["path"], None if version is None else int(version), position)
    files = in_order(table)
    plain = files and not table.metadata().partition_columns and all(alike(schema_of(file), rows.schema) for file in files)
    return files if plain else MemorySource(rows)


def delta_version(path: str) -> tuple[tuple[str, ...], int]:
    """Return the files of a Delta table's newest version, and its number.

    Raises:
        NotAvailableError, StatementError: see delta_files.
    """
    table, _ = opened(path, None, None)
    return in_order(table), table.version()


def opened(path: str, version: int | None, position: Position | None) -> tuple[DeltaTable, pa.dataset.Dataset]:
    """Return a Delta table, and its rows."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise NotAvailableError(needing("Delta tables need deltalake", "delta"), position) from error
    place = path if is_object(path) else str(local_path(path, "What a query reads", position))
    try:
        table = DeltaTable(place, version=version)
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
