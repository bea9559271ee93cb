"""The batches of a training: splits in order of learning, encoded, checked and cut."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np

from ..engines.base import Scan
from ..errors import DataError
from ..ps.table import BatchId
from .batches import Batch, Ladders, batches
from .dealing import Deal
from .encode import Chunk, encode
from .slots import Columns
from .splits import Split, chunk_rows, read


class Source:
    """The input of a training, batch by batch.

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
        binary: bool,
        ladders: Ladders,
    ) -> None:
        self._scan = scan
        self._columns = columns
        self._batch_size = batch_size
        self._binary = binary
        self._splits = splits
        self._ladders = ladders

    def batches(self, deal: Deal) -> Generator[Batch, None, None]:
        """Take splits, as long as there are any, and yield their batches."""
        while (turn := deal()) is not None:
            split, first, row = self._splits[turn.split], BatchId(0, *turn, 0), 0
            for table in read(self._scan, split, self._columns.learned, chunk_rows(self._batch_size)):
                chunk = encode(table, self._columns, with_labels=True)
                check(chunk, split, row, self._columns.labels, self._binary)
                for batch in batches(chunk, self._batch_size, first, self._ladders):
                    yield batch
                    first = first._replace(batch=batch.id.batch + 1)
                row += table.num_rows


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
