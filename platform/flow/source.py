"""The batches of a training: splits in order of learning, encoded, checked and cut."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence

import numpy as np

from ..engines.base import Scan
from ..errors import DataError
from ..ps.table import BatchId
from .batches import Batch, Ladders, batches
from .encode import Chunk, encode
from .slots import Columns
from .splits import Split, chunk_rows, read


class Source:
    """Deals the splits of all passes to workers, in order, each split to one of them.

    Args:
        binary: labels must be 0 or 1.
        ladders: the sizes that batches are padded to.
    """

    def __init__(
        self,
        scan: Scan,
        splits: Sequence[Split],
        columns: Columns,
        batch_size: int,
        passes: int,
        binary: bool,
        ladders: Ladders,
    ) -> None:
        self._scan = scan
        self._columns = columns
        self._batch_size = batch_size
        self._binary = binary
        self._splits = iter([(number, i, split) for number in range(passes) for i, split in enumerate(splits)])
        self._lock = threading.Lock()
        self._ladders = ladders

    def batches(self) -> Generator[Batch, None, None]:
        """Take splits, as long as there are any, and yield their batches."""
        while (taken := self._next()) is not None:
            pass_number, split_number, split = taken
            first, row = BatchId(0, pass_number, split_number, 0), 0
            for table in read(self._scan, split, self._columns.learned, chunk_rows(self._batch_size)):
                chunk = encode(table, self._columns, with_labels=True)
                check(chunk, split, row, self._columns.labels, self._binary)
                for batch in batches(chunk, self._batch_size, first, self._ladders):
                    yield batch
                    first = first._replace(batch=batch.id.batch + 1)
                row += table.num_rows

    def _next(self) -> tuple[int, int, Split] | None:
        with self._lock:
            return next(self._splits, None)


def check(chunk: Chunk, split: Split, row: int, labels: Sequence[str], binary: bool) -> None:
    """Refuse examples whose label is NULL, infinite, or of a classifier and not 0 or 1.

    Raises:
        DataError: names label, file, row and value.
    """
    for name, values in zip(labels, chunk.label, strict=True):
        good = (values == 0) | (values == 1) if binary else np.isfinite(values)
        if not good.all():
            at = int(np.argmin(good))
            value = "NULL" if np.isnan(values[at]) else f"{values[at]:g}"
            wanted = "0 or 1" if binary else "a finite number"
            raise DataError(
                f"LABEL {name} must be {wanted}; row {row + at} of row group {split.row_group} of {split.path} has {value}. "
                "Filter or CAST it in the query."
            )
