"""Splits: the numbered pieces of a training's input, and how their rows are read."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...warehouse.manifest import Split
from ..engines.base import Scan
from ..errors import DataError, StatementError
from .columns import VECTOR, Columns, Slot
from .slot_types import is_category

CHUNK_ROWS = 1 << 17
CODED = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}


def splits_of(scan: Scan) -> list[Split]:
    """List the splits of a scan, in order of learning.

    Raises:
        DataError: a file cannot be read as Parquet; names it.
    """
    splits = []
    for path in scan.files:
        try:
            stat = Path(path).stat()
            metadata = pq.read_metadata(path)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path} cannot be read as Parquet: {error}. Write it again or leave it out.") from error
        groups = range(metadata.num_row_groups)
        splits += [Split(path, stat.st_size, stat.st_mtime_ns, i, metadata.row_group(i).num_rows) for i in groups]
    return splits


def check_labels(scan: Scan, splits: Sequence[Split], labels: Sequence[str]) -> None:
    """Refuse labels of a classifier that the files' statistics show to be null or outside {0, 1}, before anything starts.

    A filter may drop such rows, so a scan with a projection is checked batch by batch instead.

    Raises:
        StatementError: names the column, the file where the query was not staged, and what was found.
    """
    if scan.project is not None:
        return
    groups = {(s.path, s.row_group) for s in splits}
    for path in dict.fromkeys(s.path for s in splits):
        metadata, where = pq.read_metadata(path), "the query" if scan.staged else path
        names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
        for label in labels:
            index = names.index(scan.columns[as_returned(scan, [label])[0]])
            for group in (i for i in range(metadata.num_row_groups) if (path, i) in groups):
                statistics = metadata.row_group(group).column(index).statistics
                if statistics is None:
                    continue
                if statistics.has_null_count and statistics.null_count:
                    raise StatementError(f"LABEL {label} is NULL in {statistics.null_count} rows of {where}; filter them out.")
                if statistics.has_min_max and not {float(statistics.min), float(statistics.max)} <= {0.0, 1.0}:
                    raise StatementError(
                        f"LABEL {label} of a classifier must be 0 or 1; {where} has {statistics.min} to {statistics.max}."
                    )


def vector_dims(columns: Columns, scan: Scan, splits: Sequence[Split]) -> Columns:
    """Return the columns with the number of elements of each vector slot, as its first row with any has it.

    Raises:
        StatementError: no row has any, or the first split begins with another number than a version before; names the slot.
    """

    def dim(slot: Slot) -> int:
        for split in splits[:1] if slot.dim else splits:
            for table in read(scan, split, [slot.name], CHUNK_ROWS):
                lengths = table.column(0).combine_chunks().value_lengths().fill_null(0).to_numpy()
                if lengths.any():
                    return known(slot, int(lengths[lengths > 0][0]))
        if slot.dim:
            return slot.dim
        raise StatementError(
            f"The arrays of {slot.name} are all NULL or empty, so the length of its vectors is not known. Name it in IGNORE, "
            "or select rows that have some."
        )

    return replace(columns, slots=tuple(replace(s, dim=dim(s)) if s.kind == VECTOR else s for s in columns.slots))


def known(slot: Slot, found: int) -> int:
    """Return how many elements the first vector has, which has to be the slot's number where that is known."""
    if slot.dim and found != slot.dim:
        raise StatementError(
            f"The model learned vectors of {slot.dim} elements in {slot.name}, and those of the query begin with one of "
            f"{found}. Select vectors as before, or train a new model."
        )
    return found


def chunk_rows(batch_size: int) -> int:
    """Return how many rows are read at once: about 131,072, a multiple of the batch size."""
    return chunk_batches(batch_size) * batch_size


def chunk_batches(batch_size: int) -> int:
    """Return how many batches a chunk becomes; with as many in a queue, the next chunk is encoded while one is learned from."""
    return max(1, CHUNK_ROWS // batch_size)


def read(scan: Scan, split: Split, wanted: Sequence[str], rows: int) -> Generator[pa.Table, None, None]:
    """Read a split in chunks of `rows` rows, before filters; the last one is shorter.

    Strings arrive as dictionaries where the file stores them so.

    Args:
        wanted: result columns to return, by name.

    Raises:
        DataError: the file changed since the training began, or is damaged; names it.
    """
    check_unchanged(split)
    try:
        yield from chunks(scan, split, wanted, rows)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"Row group {split.row_group} of {split.path} cannot be read: {error}") from error
    check_unchanged(split)


def check_unchanged(split: Split) -> None:
    """Refuse a file that is not what it was when the training began, by size and time of modification.

    Raises:
        DataError: it changed or is gone; names it.
    """
    try:
        stat = Path(split.path).stat()
    except OSError as error:
        raise DataError(
            f"{split.path} is gone since the training began ({error.strerror}): the file was deleted, or its table replaced or "
            "dropped. Train again with what is there now."
        ) from error
    if (stat.st_size, stat.st_mtime_ns) != (split.size, split.modified):
        raise DataError(
            f"{split.path} changed since the training began, which needs files that stay as they are. "
            "Train again with what is there now."
        )


def is_empty(scan: Scan, splits: Sequence[Split]) -> bool:
    """Tell whether filters leave no row of any split; reads no further than the first one left."""
    if scan.project is None:
        return not any(split.rows for split in splits)
    column = scan.schema.names[:1]
    return not any(table.num_rows for split in splits for table in read(scan, split, column, CHUNK_ROWS))


def chunks(scan: Scan, split: Split, wanted: Sequence[str], rows: int) -> Iterator[pa.Table]:
    returned = as_returned(scan, wanted)
    columns = returned if scan.project else [scan.columns[name] for name in returned]
    needed = list(scan.needed) if scan.project else list(dict.fromkeys(columns))
    categories = [] if scan.project else [scan.columns[n] for n in returned if is_category(scan.schema.field(n).type)]
    metadata = pq.read_metadata(split.path, memory_map=True)
    coded = in_dictionaries(metadata.row_group(split.row_group), categories)
    with pq.ParquetFile(split.path, metadata=metadata, read_dictionary=coded, memory_map=True) as file:
        for batch in file.iter_batches(rows, row_groups=[split.row_group], columns=needed, use_threads=pa.cpu_count() > 1):
            table = pa.Table.from_batches([batch])
            made = table if scan.project is None else scan.project(table)
            yield made.select(columns).rename_columns(list(wanted))


def as_returned(scan: Scan, wanted: Sequence[str]) -> list[str]:
    """Return how a query writes the names of columns, which a model may write with other case."""
    own = {name.lower(): name for name in scan.schema.names} | {name: name for name in scan.schema.names}
    return [own[name if name in own else name.lower()] for name in wanted]


def in_dictionaries(group: pq.RowGroupMetaData, names: Sequence[str]) -> list[str]:
    """Return which of some columns a row group stores as dictionaries: they are read as they are; of others Arrow would make
    dictionaries, which takes longer than to read and hash their values."""
    columns = {column.path_in_schema: column for column in map(group.column, range(group.num_columns))}
    return [name for name in names if name in columns and CODED.intersection(columns[name].encodings)]
