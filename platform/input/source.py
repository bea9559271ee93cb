"""The batches of a training: splits in order of learning, encoded, checked and cut."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algorithms.base import Negatives, Pairs, Sampling
from ...warehouse.manifest import Split
from ..engines.base import Scan
from ..errors import DataError
from ..ps.messages import BatchId
from ..ps.watermarks import Turn
from .batches import Batch, Ladders, batches
from .chunk import Chunk
from .columns import Columns
from .dealing import Deal, Dealt
from .encode import encode
from .negatives import drawn, with_negatives
from .numbers import shown
from .pairs import known_pairs, paired
from .sampling import Sampler, weighed
from .splits import chunk_batches, chunk_rows
from .timing import Clock


class End(NamedTuple):
    """The end of a turn: how many batches it has."""

    turn: Turn
    batches: int


class Source:
    """The input of a training, batch by batch.

    Args:
        epoch: of the driver.
        binary: labels must be 0 or 1.
        ladders: the sizes that batches are padded to.
        sampling, negatives, pairs, seed: how features are drawn for each batch, which rows are added, and what is paired; None
            where nothing is.
        before: examples that earlier versions have learned from.
    """

    def __init__(
        self,
        scan: Scan,
        splits: Sequence[Split],
        columns: Columns,
        batch_size: int,
        binary: bool,
        ladders: Ladders,
        epoch: int,
        sampling: Sampling | None = None,
        negatives: Negatives | None = None,
        pairs: Pairs | None = None,
        seed: int = 0,
        before: int = 0,
    ) -> None:
        self._epoch = epoch
        self._scan = scan
        self._columns = columns
        self._batch_size = batch_size
        self._binary = binary
        self._splits = splits
        self._ladders = ladders
        self._sampling = sampling
        self._negatives = negatives
        self._pairs = pairs
        self._seed = seed
        self._before = before

    def batches(self, deal: Deal, clock: Clock) -> Generator[Batch | End, None, None]:
        """Take turns, as long as there are any, and yield their batches, and the end of each; the clock is told the steps.

        Raises:
            DataError: see check, and read.
        """
        while (dealt := deal()) is not None:
            yield from self._turn(dealt, clock)

    def _turn(self, dealt: Dealt, clock: Clock) -> Generator[Batch | End, None, None]:
        split, first, row = self._splits[dealt.turn.split], BatchId(self._epoch, *dealt.turn, 0, self._before), 0
        for table in self._scan.read(split, self._columns.learned, chunk_rows(self._batch_size)):
            clock.lap("read")
            stop = first.batch + -(-table.num_rows // self._batch_size)
            if stop > dealt.start:
                where = functools.partial(row_of, self._scan, split, row)
                chunk = encode(table, self._columns, with_labels=True, where=where)
                check(chunk, where, self._columns, self._binary)
                left = dealt.start - first.batch
                for batch in self._cut(chunk, first, left):
                    clock.lap("encode")
                    yield standing(batch, dealt)
                    clock.lap("read_wait")
            first, row = first._replace(batch=stop), row + table.num_rows
        yield End(dealt.turn, first.batch)

    def _cut(self, chunk: Chunk, first: BatchId, skipped: int) -> Iterator[Batch]:
        if self._negatives is None:
            chunk = chunk if self._pairs is None else paired(chunk, self._pairs)
            yield from cut(chunk, self._batch_size, first, self._ladders, self._sampling, self._seed, skipped)
            return
        others = drawn(chunk, self._negatives, self._columns, self._seed, first)
        known = None if self._pairs is None else known_pairs(chunk, self._pairs)
        copies = 1 + self._negatives.number
        size = self._batch_size * copies
        values = sum(len(bag.codes) for bag in chunk.bags) // max(1, len(others))
        rows = chunk_batches(size * (1 + values)) * self._batch_size  # at once, as copies take memory
        for start in range(0, len(others), rows):
            part = with_negatives(chunk, self._negatives, self._columns, others[start : start + rows], start)
            part = part if self._pairs is None else paired(part, self._pairs, copies, known)
            before = start // self._batch_size
            number = first._replace(batch=first.batch + before)
            yield from cut(part, size, number, self._ladders, self._sampling, self._seed, skipped - before)


def standing(batch: Batch, dealt: Dealt) -> Batch:
    """Return a batch that says whether shards and metrics have it."""
    number = batch.id.batch
    if number >= max(dealt.applied, dealt.counted, dealt.reached):
        return batch
    return batch._replace(applied=number < dealt.applied, counted=number < dealt.counted, fresh=number >= dealt.reached)


def cut(
    chunk: Chunk,
    batch_size: int,
    first: BatchId,
    ladders: Ladders,
    sampling: Sampling | None,
    seed: int,
    skipped: int = 0,
) -> Iterator[Batch]:
    """Cut a chunk into batches, with features drawn for each where the algorithm asks for them; see `batches`."""
    if sampling is None:
        return batches(chunk, batch_size, first, ladders, skipped)
    return batches(weighed(chunk, sampling.frequent), batch_size, first, ladders, skipped, Sampler(sampling, chunk, seed))


def row_of(scan: Scan, split: Split, first: int, row: int) -> str:
    """Return where a row of a table stands that was read from a split, from row `first` of it on, in words."""
    left = "" if scan.exact else "what the query leaves of "
    return f"row {first + row} of {left}row group {split.row_group} of {split.path}"


def check(chunk: Chunk, where: Callable[[int], str], columns: Columns, binary: bool) -> None:
    """Refuse examples whose label is NULL, infinite, or of a classifier and not 0 or 1, or whose weight is no number >= 0.

    Args:
        where: names a row of the chunk.

    Raises:
        DataError: names the column, file, row and value.
    """
    for name, values in zip(columns.labels, chunk.label, strict=False):
        good, wanted = ((values == 0) | (values == 1), "0 or 1") if binary else (np.isfinite(values), "a finite number")
        require(good, values, f"LABEL {name} must be {wanted}", where)
    if columns.weight is not None:
        good = (chunk.weight >= 0) & np.isfinite(chunk.weight)
        require(good, chunk.weight, f"WEIGHT {columns.weight} must be a finite number of at least 0", where)


def require(good: NDArray[np.bool_], values: NDArray[np.float32], rule: str, where: Callable[[int], str]) -> None:
    """Refuse the first of some values that is not good."""
    if not good.all():
        at = int(np.argmin(good))
        raise DataError(f"{rule}; {where(at)} has {shown(values[at])}. Filter or CAST it in the query.")
