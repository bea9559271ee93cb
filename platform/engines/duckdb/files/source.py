"""Files as relations: a path read with a format and its options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .....warehouse.entries import SourceEntry
from ....errors import Position, StatementError, suggestion
from ....spark_types import quoted
from ...as_of import AsOf
from ...in_place import columns_of
from ...sources import source_of
from .csv import CSV_OPTIONS, csv_sql, truth
from .delta import DELTA_OPTIONS, delta_files, delta_version
from .json import JSON_OPTIONS, json_sql
from .memory import MemorySource
from .objects import let_read
from .paths import Listing, listing

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TRUTHS = ("true", "false")
OPTIONS: dict[str, Mapping[str, str | None]] = {
    "csv": CSV_OPTIONS,
    "json": JSON_OPTIONS,
    "parquet": {"path": None, "mergeschema": "false"},
    "delta": DELTA_OPTIONS,
}


@dataclass(frozen=True)
class FileSource:
    """Files that a query reads.

    Attributes:
        sql: DuckDB's query of their rows, in order.
        parquet: the files, where a reader of Parquet gets the same rows and columns from them; otherwise None.
        files: all of them.
    """

    sql: str
    parquet: tuple[str, ...] | None = None
    files: tuple[str, ...] = ()

    @classmethod
    def of_parquet(cls, found: Listing, merge: bool = False) -> FileSource:
        """Return the rows of Parquet files; `merge` gives columns that only some files have."""
        union = ", union_by_name = true" if merge else ""
        sql = f"SELECT {in_order(found)} FROM read_parquet({found.array}, {found.arguments}{union})"
        return cls(sql, None if found.partitions or merge else found.files, found.files)

    @classmethod
    def of_files(cls, files: Sequence[str]) -> FileSource:
        """Return the rows of Parquet files that are known to exist."""
        return cls.of_parquet(Listing(tuple(files), {}))


def in_order(found: Listing) -> str:
    """Return the columns of Parquet files, then those of their folders, outermost first: DuckDB's are in alphabetical order."""
    if not found.partitions:
        return "*"
    stored = {name.lower() for name in columns_of(found.files[0]).names}
    new = [(name, item) for name, item in zip(found.partitions, found.added, strict=True) if name.lower() not in stored]
    names, items = (
        (", ".join(parts) for parts in zip(*((quoted(name), item) for name, item in new), strict=True)) if new else ("", "")
    )
    return f"* EXCLUDE ({names}), {items}" if new else "*"


def open_source(
    connection: DuckDBPyConnection,
    format: str,
    options: Mapping[str, str],
    columns: Mapping[str, str] | None,
    position: Position | None,
    places: Mapping[str, Position],
) -> FileSource | MemorySource:
    """Return what a format and its options make of files.

    Args:
        options: names in lower case; `path` is one of them.
        columns: name -> DuckDB type where the statement gives them.
        position: where the files are named.
        places: the position of each option that was written.

    Raises:
        StatementError: an option is unknown or `path` is missing, the path does not exist, or its files cannot be read.
    """
    for name, value in options.items():
        if name not in OPTIONS[format]:
            message = f"There is no option {name!r} of {format} files.{suggestion(name, OPTIONS[format])}"
            raise StatementError(message, places.get(name, position))
        if OPTIONS[format][name] in TRUTHS and value.lower() not in TRUTHS:
            raise StatementError(f"The option {name} takes true or false, got {value!r}.", places.get(name, position))
    if not options.get("path"):
        raise StatementError("OPTIONS must have path: the file, folder or glob to read.", position)
    if format == "delta":
        if columns is not None:
            raise StatementError("A Delta table says what its columns are. Leave their list out.", position)
        files = delta_files(options, places.get("path", position))
        if isinstance(files, tuple):
            let_read(connection, files)
        return FileSource.of_files(files) if isinstance(files, tuple) else files
    found = listing(options["path"], places.get("path", position))
    let_read(connection, found.files)
    given = {name: value for name, value in {**OPTIONS[format], **options}.items() if value is not None}
    if format != "parquet":
        return FileSource((csv_sql if format == "csv" else json_sql)(connection, found, given, columns), None, found.files)
    check_names(found.files[0], places.get("path", position))
    source = FileSource.of_parquet(found, truth(given, "mergeschema"))
    if columns is None:
        return source
    items = ", ".join(f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for name, kind in columns.items())
    return FileSource(f"SELECT {items} FROM ({source.sql})", None, found.files)


def source_of_files(format: str, name: str, path: str, as_of: AsOf | None) -> SourceEntry:
    """Return what a version keeps of files that a query names by their path.

    Raises:
        StatementError: there are none.
        OSError: one is gone.
    """
    if format == "delta":
        files, version = delta_version(path, as_of)
        return source_of("delta", name, files, str(version))
    return source_of("files", name, listing(path, None).files)


def check_names(file: str, position: Position | None = None) -> None:
    """Require that the columns of a Parquet file have names that differ by more than case.

    Raises:
        StatementError: they do not, or the file cannot be read.
    """
    names = columns_of(file, position).names
    count = Counter(map(str.lower, names))
    wrong = [repr(name) for name in names if not name or count[name.lower()] > 1]
    if wrong:
        message = f"Columns of {file} do not differ by their names: {', '.join(wrong)}. Rename them in the file."
        raise StatementError(message, position)
