"""The batches of a training: splits in order of learning, encoded, checked and cut."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from ...warehouse.entries import Split
from ..engines.base import Scan
from ..ps.messages import BatchId
from ..ps.watermarks import Turn
from .batches import Batch, Ladders
from .dealing import Deal, TurnAssignment
from .encoder import Encoder
from .splits import chunk_rows
from .timing import Clock


def never(dealt: TurnAssignment) -> bool:
    """Return False: no worker takes a turn over."""
    return False


class End(NamedTuple):
    """The end of a turn: how many batches it has; and its term, see TurnAssignment."""

    turn: Turn
    batches: int
    term: int = 0


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
        split, first, row = self._splits[dealt.turn.split], BatchId(self._epoch, *dealt.turn, 0, self._before), 0
        self._encoder.begin_split()
        for table in self._scan.read(split, self._columns, chunk_rows(self._batch_size)):
            clock.lap("read")
            stop = first.batch + -(-table.num_rows // self._batch_size)
            if stop > dealt.start or row == 0:  # the first rows are encoded even where they were learned: see RunFinder
                chunk = self._encoder.chunk(table, functools.partial(row_of, self._scan, split, row))
                skipped = dealt.start - first.batch
                for batch in self._encoder.batches(chunk, self._batch_size, first, self._ladders, skipped):
                    if left(dealt):
                        return
                    clock.lap("encode")
                    yield standing(batch, dealt)
                    clock.lap("read_wait")
            first, row = first._replace(batch=stop), row + table.num_rows
        yield End(dealt.turn, first.batch, dealt.term)


def standing(batch: Batch, dealt: TurnAssignment) -> Batch:
    """Mark a batch with its term, and whether shards and metrics have it."""
    number = batch.id.batch
    if number >= max(dealt.applied, dealt.counted, dealt.reached) and not dealt.term:
        return batch
    applied, counted, fresh = number < dealt.applied, number < dealt.counted, number >= dealt.reached
    return batch._replace(applied=applied, counted=counted, fresh=fresh, term=dealt.term)


def row_of(scan: Scan, split: Split, first: int, row: int) -> str:
    """Return in words the position of a table's row that was read from a split, from row `first` on."""
    left = "" if scan.exact else "what the query leaves of "
    return f"row {first + row} of {left}{split.where}"
