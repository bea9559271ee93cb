"""Parquet files read in place: row groups are splits."""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from ...warehouse.entries import RowGroup, Split
from ..errors import DataError, NoTextError
from ..objects import is_object, located, stamp
from ..spark_types import is_category
from .base import Bounds
from .parquet_files import metadata_of, parquet_file, schema_of

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

MOST_COUNTED = 1 << 25
CODED = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
ELEMENT = 2  # names below a column of arrays, where its elements are: `a.list.element`


class RowProjection(Protocol):
    """Makes the result's rows of one piece, a table of the stored columns `needed`, in their order; from any thread."""

    @property
    def needed(self) -> tuple[str, ...]: ...

    def only(self, names: tuple[str, ...]) -> RowProjection:
        """Return what makes the same rows with some of their columns, and needs no more than these take."""
        ...

    def __call__(self, piece: pa.Table) -> pa.Table: ...


@dataclass(frozen=True)
class ParquetScan:
    """Parquet files that are read piece by piece, in order; see Scan.

    Attributes:
        files: absolute paths, in the order of reading.
        columns: result column -> source column, for a scan of references and renames; the result's order.
        project: None, or what makes the result's rows of one piece, for row-wise expressions and filters.
        needed: the source columns that are read.
        schema: the result's columns, in Spark's types.
        staged: the query's rows were materialized into these files, which are deleted with the statement.
        coded_fields: the column of arrays of structs whose texts are read as dictionaries where they are stored so; "": none.
        whole: a split is read as one table.
        condition: over the stored columns; every row of the result fulfils it, so a row group whose statistics rule it out is
            no split; None: nothing is known.
    """

    files: tuple[str, ...]
    columns: dict[str, str]
    project: RowProjection | None
    needed: tuple[str, ...]
    schema: pa.Schema
    staged: bool = False
    bounded: bool = True
    coded_fields: str = ""
    whole: bool = False
    condition: pc.Expression | None = None

    @property
    def exact(self) -> bool:
        """Whether no filter is evaluated on the way."""
        return self.project is None

    @property
    def most_counted(self) -> int:
        """Many: a column is read without the others."""
        return MOST_COUNTED

    def splits(self) -> list[Split]:
        """List the row groups of the files that may have rows of the result."""
        splits: list[Split] = []
        for path in self.files:
            try:
                written, metadata = stamp(path), metadata_of(path)
                groups = range(metadata.num_row_groups) if self.condition is None else possible_groups(path, self.condition)
            except (OSError, pa.ArrowException) as error:
                raise DataError(f"{path} cannot be read as Parquet: {error}. Write it again or leave it out.") from error
            splits += [RowGroup(path, *written, i, metadata.row_group(i).num_rows) for i in groups]
        return splits

    def read(self, split: Split, wanted: Sequence[str], rows: int) -> Generator[pa.Table, None, None]:
        """Read a row group."""
        group = as_row_group(split)
        check_unchanged(group)
        try:
            yield from self._chunks(group, wanted, rows)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"Row group {group.row_group} of {group.path} cannot be read: {error}") from error
        except NoTextError as error:
            raise NoTextError(f"Row group {group.row_group} of {group.path}: {error}") from error
        check_unchanged(group)

    def bounds(self, splits: Sequence[Split], column: str) -> Iterator[Bounds]:
        """Yield the statistics of a column of row groups."""
        if self.project is not None:
            return
        chosen = [as_row_group(split) for split in splits]
        groups = {(split.path, split.row_group) for split in chosen}
        for path in dict.fromkeys(split.path for split in chosen):
            metadata, where = metadata_of(path), "the query" if self.staged else path
            names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
            index = names.index(self.columns[self.own_names([column])[0]])
            for group in (i for i in range(metadata.num_row_groups) if (path, i) in groups):
                statistics = metadata.row_group(group).column(index).statistics
                if statistics is not None:
                    nulls = statistics.null_count if statistics.has_null_count else None
                    low, high = (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
                    yield Bounds(where, nulls, low, high)

    def describe(self) -> str:
        """Return how the files are read."""
        how = "read in place" if self.project is None else "read in place, expressions and filters evaluated piece by piece"
        left = len(self.splits())
        every = left if self.condition is None else len(replace(self, condition=None).splits())
        others = f" (statistics of the files rule out {every - left:,} more)" if every > left else ""
        return f"{how}; files: {len(self.files):,}, splits: {left:,}{others}"

    def check(self, split: Split) -> None:
        """Refuse a file that has changed."""
        check_unchanged(as_row_group(split))

    def entry(self) -> dict[str, Any]:
        """Return columns and schema; a projection is made again from the query."""
        schema = base64.b64encode(self.schema.serialize()).decode()
        return {"columns": self.columns, "needed": self.needed, "schema": schema, "projected": self.project is not None}

    def over(self, splits: Sequence[Split]) -> ParquetScan:
        """Return the scan of the files of some splits."""
        return replace(self, files=tuple(dict.fromkeys(as_row_group(split).path for split in splits)))

    def _chunks(self, split: RowGroup, wanted: Sequence[str], rows: int) -> Iterator[pa.Table]:
        returned = self.own_names(wanted)
        project = None if self.project is None else self.project.only(tuple(dict.fromkeys(returned)))
        columns = returned if project else [self.columns[name] for name in returned]
        needed = list(project.needed) if project else list(dict.fromkeys(columns))
        coded = [n for n in returned if n == self.coded_fields or of_categories(self.schema.field(n).type)]
        categories = [] if project else [self.columns[name] for name in coded]
        metadata = metadata_of(split.path)
        stored = in_dictionaries(metadata.row_group(split.row_group), categories)
        with parquet_file(split.path, metadata=metadata, read_dictionary=stored) as opened:
            for batch in opened.batches(max(rows, split.rows) if self.whole else rows, split.row_group, needed):
                table = pa.Table.from_batches([batch])
                made = table if project is None else project(table)
                yield made.select(columns).rename_columns(list(wanted))

    def own_names(self, wanted: Sequence[str]) -> list[str]:
        """Return the names of columns as the query writes them; a model may differ in case."""
        own = {name.lower(): name for name in self.schema.names} | {name: name for name in self.schema.names}
        return [own[name if name in own else name.lower()] for name in wanted]


def staged_scan(files: tuple[str, ...], schema: pa.Schema, whole: bool = False) -> ParquetScan:
    """Return the scan of files that a query's rows were written to."""
    names = tuple(schema.names)
    return ParquetScan(files, dict(zip(names, names, strict=True)), None, names, schema, staged=True, whole=whole)


def possible_groups(path: str, condition: pc.Expression) -> list[int]:
    """Return the row groups of a file whose statistics do not rule a condition out."""
    import pyarrow.dataset as ds  # where a query filters
    from pyarrow.fs import LocalFileSystem

    files, place = located(path) if is_object(path) else (LocalFileSystem(), path)
    fragment = ds.ParquetFileFormat().make_fragment(place, files)
    return [group.id for group in fragment.subset(filter=condition, schema=schema_of(path)).row_groups]


def as_row_group(split: Split) -> RowGroup:
    """Return a split of a scan of files as the row group that it is."""
    assert isinstance(split, RowGroup)
    return split


def check_unchanged(split: RowGroup) -> None:
    """Refuse a file whose size or time of modification changed since the training began.

    Raises:
        DataError: it changed or is gone; names it.
    """
    try:
        found = stamp(split.path)
    except OSError as error:
        raise DataError(
            f"{split.path} is gone since the training began ({error.strerror}): the file was deleted, or its table replaced or "
            "dropped. Train again with what is there now."
        ) from error
    if found != (split.size, split.modified):
        raise DataError(
            f"{split.path} changed since the training began, which needs files that stay as they are. "
            "Train again with what is there now."
        )


def of_categories(type: pa.DataType) -> bool:
    """Return whether values are categories, or arrays of them."""
    is_list = pa.types.is_list(type) or pa.types.is_large_list(type)
    return is_category(type.value_type if is_list else type)


def in_dictionaries(group: pq.RowGroupMetaData, names: Sequence[str]) -> list[str]:
    """Return the columns whose values, or elements, a row group stores as dictionaries, which are read as such; to make
    dictionaries of other columns takes Arrow longer than reading and hashing their values."""
    wanted = frozenset(names)
    columns = map(group.column, range(group.num_columns))
    return [c.path_in_schema for c in columns if column_of(c, wanted) and CODED.intersection(c.encodings)]


def column_of(stored: pq.ColumnChunkMetaData, names: frozenset[str]) -> bool:
    """Return whether what is stored is one of some columns, the elements of one, or texts in the fields of these."""
    path, parts = stored.path_in_schema, stored.path_in_schema.split(".")
    if path in names or ".".join(parts[:-ELEMENT]) in names:
        return True
    return stored.physical_type == "BYTE_ARRAY" and ".".join(parts[: -ELEMENT - 1]) in names
