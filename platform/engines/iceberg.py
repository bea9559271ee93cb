"""Tables of Iceberg catalogs: which catalog a name means, a table's snapshots, and the files of one.

A name of three parts is a catalog's: pyiceberg's own configuration says how to reach it, `.pyiceberg.yaml` or variables such as
PYICEBERG_CATALOG__LAKE__URI, as `spark.sql.catalog.lake` does on Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from ...warehouse.entries import SourceEntry
from ..errors import NotAvailableError, Position, StatementError
from ..objects import is_object
from ..system import needing
from .as_of import AsOf, moment_of
from .parquet_files import schema_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

SPARKS = "spark_catalog"
FIELD = b"PARQUET:field_id"
LARGE = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


class DataFile(NamedTuple):
    """A file of a snapshot: its path as readers here take it, rows and bytes, and the number of the change that added it."""

    path: str
    rows: int
    size: int
    sequence: int


class SnapshotFiles(NamedTuple):
    """The files of a snapshot, in the order in which they were written.

    Attributes:
        deletes: files of deletes say that some of their rows are gone.
    """

    files: tuple[DataFile, ...]
    deletes: bool


def of_catalog(parts: Sequence[str]) -> bool:
    """Return whether a name is of a catalog other than Spark's own."""
    return len(parts) > 2 and parts[0].lower() != SPARKS


def catalog_of(name: str, position: Position | None) -> Catalog:
    """Return a catalog by its name.

    Raises:
        NotAvailableError: pyiceberg, or what it needs for this catalog, is not installed.
        StatementError: no configuration knows the catalog, or it does not answer.
    """
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NotInstalledError
        from pyiceberg.utils.config import Config
    except ImportError as error:
        need = f"{name} is a catalog, and tables of Iceberg need pyiceberg"
        raise NotAvailableError(needing(need, "iceberg"), position) from error
    known = Config().get_catalog_config(name)
    if known is None:
        raise StatementError(
            f"There is no catalog {name}. Describe it in .pyiceberg.yaml, or by PYICEBERG_CATALOG__{name.upper()}__URI and the "
            "like; tables of the warehouse have no catalog.",
            position,
        )
    try:
        return load_catalog(name, **known)
    except (NotInstalledError, ImportError) as error:
        raise NotAvailableError(f"The catalog {name} needs a package: {error}.", position) from error
    except Exception as error:  # clients of catalogs have no error in common
        raise StatementError(f"The catalog {name} cannot be opened: {error}.", position) from error


def table_of(parts: Sequence[str], position: Position | None) -> Table:
    """Return a table of a catalog in its present state.

    Raises:
        NotAvailableError, StatementError: see catalog_of; or the catalog has no such table.
    """
    catalog = catalog_of(parts[0], position)
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return catalog.load_table(tuple(parts[1:]))
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise StatementError(f"The catalog {parts[0]} has no table {'.'.join(parts[1:])}.", position) from error
    except Exception as error:  # clients of catalogs have no error in common
        raise StatementError(f"The catalog {parts[0]} does not answer: {error}.", position) from error


def snapshot_of(table: Table, name: str, as_of: AsOf | None, position: Position | None) -> Snapshot | None:
    """Return the present snapshot of a table, or the one that AS OF says; None of a table without any.

    Raises:
        StatementError: there is no such snapshot, branch or tag; says which there are.
    """
    if as_of is None:
        return table.current_snapshot()
    if as_of.kind == "TIMESTAMP":
        moment = moment_of(as_of.value, position)
        found = table.snapshot_as_of_timestamp(int(moment.timestamp() * 1000))
    elif as_of.value.isdecimal():
        found = table.snapshot_by_id(int(as_of.value))
    else:
        found = table.snapshot_by_name(as_of.value)
    if found is None:
        raise StatementError(f"{name} has no snapshot {as_of.kind} AS OF {as_of.value}. {known_snapshots(table)}", position)
    return found


def known_snapshots(table: Table) -> str:
    """Return which snapshots a table has, in words."""
    snapshots = sorted(table.snapshots(), key=lambda one: one.timestamp_ms)
    if not snapshots:
        return "It has none yet."
    times = [datetime.fromtimestamp(one.timestamp_ms / 1000, UTC) for one in snapshots]
    ends = [f"{one.snapshot_id} ({time:%Y-%m-%d %H:%M:%S})" for one, time in zip(snapshots, times, strict=True)]
    names = ", ".join(table.refs()) or "none"
    return f"It has {len(snapshots)}, from {ends[0]} to {ends[-1]} in UTC; branches and tags: {names}."


def planned(table: Table, snapshot: Snapshot | None) -> SnapshotFiles:
    """Return the files of a snapshot."""
    if snapshot is None:
        return SnapshotFiles((), False)
    numbers = {
        entry.data_file.file_path: entry.sequence_number or 0
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    }
    tasks = list(table.scan(snapshot_id=snapshot.snapshot_id).plan_files())
    files = [data_file(task.file, numbers.get(task.file.file_path, 0)) for task in tasks]
    ordered = sorted(files, key=lambda file: (file.sequence, file.path))
    return SnapshotFiles(tuple(ordered), any(task.delete_files for task in tasks))


def data_file(file: object, sequence: int) -> DataFile:
    """Return a file of pyiceberg's as one of ours."""
    return DataFile(readable(file.file_path), file.record_count, file.file_size_in_bytes, sequence)  # type: ignore[attr-defined]


def readable(location: str) -> str:
    """Return the path of a file as readers here take it: of a local one without its scheme."""
    return unquote(urlsplit(location).path) if location.startswith("file:") else location


def in_place(table: Table, schema: Schema, plan: SnapshotFiles) -> bool:
    """Return whether each file has the columns of a table by number, name and type, all its rows, and a reader for it here."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    wanted = list(columns(schema_to_pyarrow(schema)))
    paths = [file.path for file in plan.files]
    reachable = all(is_object(path) or path.startswith("/") for path in paths)
    return not plan.deletes and reachable and all(list(columns(schema_of(path))) == wanted for path in paths)


def columns(schema: pa.Schema) -> Iterator[tuple[str, str, pa.DataType]]:
    """Yield name, number and type of each column; texts and bytes of any size are one type each."""
    for field in schema:
        yield field.name, (field.metadata or {}).get(FIELD, b"").decode(), LARGE.get(field.type, field.type)


def source_of_table(name: str, parts: Sequence[str], as_of: AsOf | None) -> SourceEntry:
    """Return what a version keeps of a table: its snapshot, and a digest of the files of that.

    Raises:
        NotAvailableError, StatementError: see table_of and snapshot_of.
    """
    import xxhash

    table = table_of(parts, None)
    snapshot = snapshot_of(table, name, as_of, None)
    files = planned(table, snapshot).files
    lines = "".join(f"{path}\0{size}\n" for path, size in sorted((file.path, file.size) for file in files))
    number = "" if snapshot is None else str(snapshot.snapshot_id)
    digest = xxhash.xxh3_128_hexdigest(f"{number}\n{lines}".encode())
    return SourceEntry("iceberg", name, number, len(files), sum(file.size for file in files), digest)
