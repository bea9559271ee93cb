"""The formats of files that arrive, a line each in FORMATS: how a file is cut into splits, and how a query reads those."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....warehouse.entries import RowGroup, Split
from ...engines.base import Scan
from ...engines.parquet_scan import as_row_group, check_unchanged
from ...errors import DataError, NotAvailableError
from ...spark_types import TIMESTAMP, spark_schema
from ...system import needing
from .decoded_scan import SkipNote, reading_of
from .decoding import Decoded, Decoder, schema_of
from .files import ArrivedFile, files_of, scan_of, splits_of
from .segment_scan import SegmentScan
from .skipped import Skipped

BLOCK = 1 << 20
SHORT = 2
"""The bytes of an empty line: only its end."""
AVRO = b"Obj\x01"
SYNC = 16


class FileFormat(NamedTuple):
    """A format of files.

    Attributes:
        splits: of a file; one of no rows where it has none, so that the file is known to be learned.
        scan: how a query reads splits, given the statement's schema, and whether undecodable input is skipped.
    """

    splits: Callable[[ArrivedFile], list[Split]]
    scan: Callable[[str, Sequence[Split], Path, str | None, bool], Scan]


@dataclass(frozen=True)
class LineSource:
    """The rows of files that have a JSON object in each line; see RowSource."""

    decoder: Decoder

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        return self.decoder.schema

    def decoded(self, split: Split, needed: Sequence[str], rows: int) -> Iterator[tuple[int, Decoded]]:
        """Yield the rows of a file; an empty line is skipped, and no error."""
        group, first = as_row_group(split), 1
        check_unchanged(group)
        with opened(group) as file:
            while lines := list(itertools.islice(file, rows)):
                values = pa.array(lines, pa.binary())
                numbers = np.arange(first, first + len(lines))
                short = np.flatnonzero(pc.less_equal(pc.binary_length(values), SHORT).to_numpy(zero_copy_only=False))
                if len(empty := [number for number in short.tolist() if not lines[number].strip()]):
                    kept = np.ones(len(lines), np.bool_)
                    kept[empty] = False
                    values, numbers = values.filter(pa.array(kept)), numbers[kept]
                yield len(lines), self.decoder.objects(values, numbers, needed)
                first += len(lines)
        check_unchanged(group)

    def check(self, split: Split) -> None:
        """Refuse a file that has changed."""
        check_unchanged(as_row_group(split))

    def noted(self, split: Split) -> SkipNote:
        """Return the file."""
        group = as_row_group(split)
        return SkipNote(f"{Path(group.path).name}-{group.modified}", {"file": group.path})

    def no_row(self, split: Split, first: Skipped) -> DataError:
        """Return the error of a line that is not a row."""
        return DataError(
            f"Line {first.offset} of {as_row_group(split).path} is not a row: {first.reason}. read_files(..., "
            "on_error => 'skip') "
            "skips such lines and records them."
        )


@dataclass(frozen=True)
class AvroSource(LineSource):
    """The rows of Avro files; see RowSource."""

    columns: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        return self.columns

    def decoded(self, split: Split, needed: Sequence[str], rows: int) -> Iterator[tuple[int, Decoded]]:
        """Yield the rows of a file."""
        group = as_row_group(split)
        check_unchanged(group)
        table = read_avro(group.path, needed)
        check_unchanged(group)
        wanted = pa.schema([self.columns.field(name) for name in needed])
        if (found := table.schema) != wanted:
            raise DataError(
                f"Files of the stream differ: {group.path} has {found.to_string()}, and the first {wanted.to_string()}. "
                "Write it again as the others are, or move it away."
            )
        for start in range(0, len(table), rows):
            yield min(rows, len(table) - start), Decoded(table.slice(start, rows), [])


def opened(group: RowGroup) -> BinaryIO:
    """Open a file.

    Raises:
        DataError: it is gone.
    """
    try:
        return Path(group.path).open("rb")
    except OSError as error:
        raise DataError(f"{group.path} cannot be read: {error.strerror}. Put it back, or train again.") from error


def line_splits(file: ArrivedFile) -> list[Split]:
    """Return a file of lines as one split."""
    with opened(RowGroup(*file)) as lines:
        count, last = 0, b"\n"
        while block := lines.read(BLOCK):
            count, last = count + block.count(b"\n"), block[-1:]
    return [RowGroup(*file, 0, count + (last != b"\n"))]


def line_scan(query: str, splits: Sequence[Split], warehouse: Path, schema: str | None, skips: bool) -> Scan:
    """Return how a query reads JSON lines."""
    assert schema is not None  # check_schema
    return SegmentScan(reading_of(query, LineSource(Decoder(schema_of(schema))), skips, warehouse), tuple(splits))


def avro_splits(file: ArrivedFile) -> list[Split]:
    """Return an Avro file as one split; its blocks say how many rows they have.

    Raises:
        DataError: it is not an Avro file, or truncated.

    Source: Apache Avro 1.12 specification, object container files.
    """
    with opened(RowGroup(*file)) as data:
        try:
            return [RowGroup(*file, 0, avro_rows(data, file.size))]
        except (ValueError, IndexError) as error:
            raise DataError(f"{file.path} cannot be read as Avro: {error}. Write it again under another name.") from error


def avro_rows(data: BinaryIO, size: int) -> int:
    """Return the rows of an Avro file.

    Raises:
        ValueError, IndexError: it is not an Avro file, or ends within a block.
    """
    if data.read(len(AVRO)) != AVRO:
        raise ValueError("it does not begin like one")
    while count := long_of(data):  # metadata: pairs of a text and bytes; a negative count comes with a size in bytes
        if count < 0:
            skip(data, long_of(data), size)
            continue
        for _ in range(2 * count):
            skip(data, long_of(data), size)
    skip(data, SYNC, size)
    rows = 0
    while data.tell() < size:
        if (count := long_of(data)) < 0:
            raise ValueError(f"a block has {count} rows")
        rows += count
        skip(data, long_of(data) + SYNC, size)
    return rows


def long_of(data: BinaryIO) -> int:
    """Read an integer: seven bits a byte, the lowest first, its sign the lowest of all."""
    value = shift = 0
    while True:
        byte = data.read(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        if (shift := shift + 7) > 63:
            raise ValueError("an integer is too long")


def skip(data: BinaryIO, count: int, size: int) -> None:
    """Skip some bytes."""
    if not 0 <= count <= size - data.tell():
        raise ValueError("it is cut off")
    data.seek(count, 1)


def read_avro(path: str, names: Sequence[str] | None) -> pa.Table:
    """Return columns of an Avro file, None: all, in Spark's types; times are moments, as Avro has them.

    Raises:
        NotAvailableError: Polars is not installed.
        DataError: the file cannot be read.
    """
    try:
        import polars
    except ImportError as error:
        raise NotAvailableError(needing("Avro files need the package polars", "avro")) from error
    try:
        table = polars.read_avro(path, columns=None if names is None else list(names)).to_arrow()
    except (OSError, polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise DataError(f"{path} cannot be read as Avro: {error}. Write it again under another name.") from error
    fields = [
        field.with_type(TIMESTAMP) if pa.types.is_timestamp(field.type) else field for field in spark_schema(table.schema)
    ]
    made: pa.Table = table.cast(pa.schema(fields))
    return made if names is None else made.select(list(names))


def avro_scan(query: str, splits: Sequence[Split], warehouse: Path, schema: str | None, skips: bool) -> Scan:
    """Return how a query reads Avro files; all have the first one's columns."""
    columns = read_avro(files_of(splits)[0].path, None).schema
    return SegmentScan(reading_of(query, AvroSource(Decoder(None), columns), skips, warehouse), tuple(splits))


FORMATS: Mapping[str, FileFormat] = {
    "parquet": FileFormat(splits_of, lambda query, splits, warehouse, schema, skips: scan_of(query, splits, warehouse)),
    "json": FileFormat(line_splits, line_scan),
    "avro": FileFormat(avro_splits, avro_scan),
}
