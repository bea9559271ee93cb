"""The batches of a training: splits in order of learning, encoded, checked and cut."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import pyarrow as pa

from ...warehouse.entries import Split
from ..engines.base import Scan
from ..ps.messages import BatchId
from ..ps.watermarks import Turn
from .batches import Batch, Ladders
from .dealing import Deal, TurnAssignment
from .encoder import Encoder
from .prefetch import Make
from .runs.finding import RunsOfSplit
from .splits import chunk_rows
from .timing import Clock, Clocks


def never(dealt: TurnAssignment) -> bool:
    """Return False: no worker takes a turn over."""
    return False


class End(NamedTuple):
    """The end of a turn: how many batches it has; and its term, see TurnAssignment."""

    turn: Turn
    batches: int
    term: int = 0


Piece = Callable[[Clock], Generator[Batch | End, None, None]]
"""Makes some batches of a turn, or its end; the clock measures the steps."""


class Source:
    """The input of a training, batch by batch.

    Args:
        encoder: of the model.
        columns: what is read.
        ladders: the sizes that batches are padded to.
        epoch: of the driver.
        before: examples that earlier versions have learned from.
    """

    def __init__(
        self,
        scan: Scan,
        splits: Sequence[Split],
        encoder: Encoder,
        columns: Sequence[str],
        batch_size: int,
        ladders: Ladders,
        epoch: int,
        before: int,
    ) -> None:
        self._epoch = epoch
        self._scan = scan
        self._encoder = encoder
        self._columns = columns
        self._batch_size = batch_size
        self._splits = splits
        self._ladders = ladders
        self._before = before

    def batches(
        self, deal: Deal, clock: Clock, left: Callable[[TurnAssignment], bool] = never
    ) -> Generator[Batch | End, None, None]:
        """Take turns, as long as there are any, and yield their batches, and the end of each; the clock measures the steps.

        Args:
            left: returns whether another worker has the current turn now; the rest of it is not read.

        Raises:
            DataError: see Encoder.chunk, and read.
        """
        while (dealt := deal()) is not None:
            yield from self._turn(dealt, clock, left)

    def _turn(
        self, dealt: TurnAssignment, clock: Clock, left: Callable[[TurnAssignment], bool]
    ) -> Generator[Batch | End, None, None]:
        for piece in self._pieces(dealt, clock):
            for item in piece(clock):
                if isinstance(item, Batch) and left(dealt):
                    return
                yield item

    def pieces(self, deal: Deal, clocks: Clocks) -> Generator[Make[Batch | End], None, None]:
        """Take turns as `batches` does, and yield what makes their batches and ends, piece by piece: each may be made on a
        thread of its own, once those before it are begun. Whoever takes one reads it, one at a time."""
        clock = clocks.reading
        while (dealt := deal()) is not None:
            for piece in self._pieces(dealt, clock):
                yield lambda piece=piece: piece(clocks.reader())  # type: ignore[misc]
                clock.start()

    def _pieces(self, dealt: TurnAssignment, clock: Clock) -> Generator[Piece, None, None]:
        split, first, row = self._splits[dealt.turn.split], BatchId(self._epoch, *dealt.turn, 0, self._before), 0
        runs, numbers = RunsOfSplit(), itertools.count()
        for table in self._scan.read(split, self._columns, chunk_rows(self._batch_size)):
            clock.lap("read")
            stop = first.batch + -(-table.num_rows // self._batch_size)
            if stop > dealt.start or row == 0:  # the first rows are encoded even where they were learned: see RunsOfSplit
                where = functools.partial(row_of, self._scan, split, row)
                yield functools.partial(self._encoded, table, where, first, dealt, runs, next(numbers))
            first, row = first._replace(batch=stop), row + table.num_rows
        end = End(dealt.turn, first.batch, dealt.term)
        yield lambda clock: (item for item in (end,))

    def _encoded(
        self,
        table: pa.Table,
        where: Callable[[int], str],
        first: BatchId,
        dealt: TurnAssignment,
        runs: RunsOfSplit,
        number: int,
        clock: Clock,
    ) -> Generator[Batch | End, None, None]:
        try:
            chunk, size = self._encoder.chunk(table, where), self._batch_size
            for batch in self._encoder.batches(chunk, size, first, self._ladders, dealt.start - first.batch, runs, number):
                clock.lap("encode")
                yield standing(batch, dealt)
                clock.lap("read_wait")
        finally:
            runs.over(number)


def standing(batch: Batch, dealt: TurnAssignment) -> Batch:
    """Mark a batch with its term, and whether shards and metrics have it."""
    number = batch.id.batch
    if number >= max(dealt.applied, dealt.counted, dealt.reached) and not dealt.term:
        return batch
    applied, counted, fresh = number < dealt.applied, number < dealt.counted, number >= dealt.reached
    return batch._replace(applied=applied, counted=counted, fresh=fresh, term=dealt.term)


def row_of(scan: Scan, split: Split, first: int, row: int) -> str:
    """Return in words the position of a table's row that was read from a split, from row `first` on."""
    if scan.staged:  # in a file that goes with the statement
        return "a row of the query's result"
    left = "" if scan.exact else "what the query leaves of "
    return f"row {first + row} of {left}{split.where}"
