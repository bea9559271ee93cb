"""Batches: runs of encoded examples with their unique keys, padded so that JAX sees few shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...algorithms.blocks.bags import BagRows
from ...algorithms.blocks.base import NO_BLOCKS, BatchWindow, Blocks, InBatch, SlotBlock, every
from ...algorithms.blocks.histories import History
from ...algorithms.chunk import Added, Chunk, Facets
from ..ps._native import Deduplicator
from ..ps.compiled.aligned import empty, filled, padded
from ..ps.compiled.ladder import Ladder
from ..ps.messages import BatchId
from .cutting import NO_CODES, Codes, Counts, Floats, FoundRows, NumberCodes, OwnCodes, blocks_of
from .runs.groups import BatchGroup, CommonCodes, bag_rows, bag_values
from .side.table import SideRows

B = TypeVar("B", bound=InBatch)
SHORTEST = 16


class Batch(NamedTuple):
    """One batch, m unique keys; index m means absent, arrays over keys are padded to `size` > m by whoever pulls.

    Attributes:
        examples: real ones; the rest up to the batch size is padding.
        keys: uint64[m].
        size: padded number of rows.
        scalar: int32[num_scalar, batch].
        bags: the values of multi-valued and weighted slots.
        dense: float32[num_dense, examples], raw, NaN where absent; dense_index: int32[num_dense].
        label: float32[num_labels, batch]; weight: float32[batch].
        blocks: what it has of the other slots, as `Inputs` has it.
        id: which batch it is.
        slots: uint16[m]; counts, clicks: uint32[m]; of a batch that is learned from.
        offered_index: int32[num_offered], the rows that are learned for what operators offer.
        time_seconds: newest TIME of the batch.
        facets: of an evaluation that groups or divides examples; None elsewhere.
        applied: every shard has it already: it is scored, not learned from again.
        counted: the metrics have it already.
        fresh: no shard has it yet, so that its predictions do not depend on its labels.
        term: of its turn, see TurnAssignment.
        sampled_index: int32[num_sampled], the rows of features drawn at random; None where none are.
        group: what neighbouring examples have in common; `scalar` and the values of bags then lack it.
        sides: of the vectors with ids of each kind, which of them each row has.
        expected: float32[n], of the examples after the batch's own, see Added; None where there are none. `scalar`, `dense`,
            `label` and `weight` have n more columns for them, and `dense` has the padding's columns before them.
    """

    examples: int
    keys: NDArray[np.uint64]
    size: int
    scalar: Codes
    bags: BagRows
    dense: Floats
    dense_index: Codes
    label: Floats
    weight: Floats
    blocks: Blocks = NO_BLOCKS
    id: BatchId = BatchId()
    slots: NDArray[np.uint16] = np.empty(0, np.uint16)
    counts: Counts = np.empty(0, np.uint32)
    clicks: Counts = np.empty(0, np.uint32)
    offered_index: Codes = np.empty(0, np.int32)
    time_seconds: int = 0
    facets: Facets | None = None
    applied: bool = False
    counted: bool = False
    fresh: bool = True
    term: int = 0
    sampled_index: Codes | None = None
    group: BatchGroup | None = None
    sides: tuple[SideRows, ...] = ()
    expected: Floats | None = None

    def block(self, block: SlotBlock[Any, Any, B]) -> tuple[B, ...]:
        """Return the records of a block, of NumPy's arrays."""
        return self.blocks.get(block.name, ())

    def codes(self, line: int) -> Codes:
        """Return which of its keys each example has of a slot of one value, int32[examples]; m of none.

        Args:
            line: the slot's place among those of one value.
        """
        if self.group is None:
            return self.scalar[line, : self.examples]
        lines = self.group.lines
        place = sum(1 for common in lines[:line] if common == lines[line])
        codes: Codes = self.group.scalar[place][self.group.owner] if lines[line] else self.scalar[place]
        return codes[: self.examples]

    def empty(self, batch: int, rows: int, values: int) -> Batch:
        """Return the same without keys and features, of other sizes: examples, rows, and values of multi-valued slots."""
        codes: Any = np.zeros(values, np.int32)
        weights: Any = np.zeros(values, np.float32)
        group, groups = None, batch
        if self.group is not None:
            group, groups = self.group._replace(owner=np.zeros(batch, np.int32)), self.group.scalar.shape[1]
        return self._replace(
            keys=np.empty(0, np.uint64),
            size=rows,
            scalar=np.zeros((len(self.scalar), batch), np.int32),
            bags=BagRows(codes, codes, codes, weights),
            dense=np.full((len(self.dense), 1), np.nan, np.float32),
            dense_index=np.zeros_like(self.dense_index),
            offered_index=np.zeros_like(self.offered_index),
            label=np.zeros((len(self.label), batch), np.float32),
            weight=np.zeros(batch, np.float32),
            blocks=every(self.blocks, lambda one: one.empty(batch, groups)),
            group=group,
        )


def padded_length(longest: int, most: int) -> int:
    """Return the padded length: 16, 64, 256, ..., at most `most`. The longest history of a batch is seldom much shorter."""
    length = SHORTEST
    while length < longest:
        length *= 4
    return min(length, most)


class Ladders(NamedTuple):
    """The sizes that batches are padded to: rows, values of multi-valued slots, and elements of records of blocks."""

    rows: Ladder
    values: Ladder
    elements: Callable[[int, int], int] = padded_length


def batches(chunk: Chunk, batch_size: int, first: BatchId, ladders: Ladders, skipped: int = 0) -> Iterator[Batch]:
    """Cut a chunk into batches of `batch_size` examples, the last one shorter, numbered from `first`.

    Args:
        skipped: how many of them are left out, from the first on.
    """
    unique = Deduplicator(len(chunk.keys))
    rows, skipped = len(chunk.weight), max(0, skipped)
    for number, start in enumerate(range(skipped * batch_size, rows, batch_size), first.batch + skipped):
        which = first._replace(batch=number)
        sampled = NO_CODES if chunk.drawn is None else chunk.drawn(which.pass_number, which.batch)
        added = None if chunk.added is None else chunk.added(which.pass_number, which.batch)
        yield cut(chunk, unique, start, min(start + batch_size, rows), batch_size, which, ladders, sampled, added)


def cut(
    chunk: Chunk,
    deduplicator: Deduplicator,
    start: int,
    stop: int,
    batch_size: int,
    which: BatchId,
    ladders: Ladders,
    sampled: Codes,
    added: Added | None = None,
) -> Batch:
    """Return examples start:stop of a chunk as one padded batch, with the rows of sampled codes, and examples after them."""
    examples, runs, common = stop - start, chunk.runs, None
    size_of_batch = batch_size + (0 if added is None else len(added.expected))
    label = padded(chunk.label[:, start:stop], size_of_batch)
    positive = label[0, :examples] > 0 if len(label) else np.zeros(examples, np.bool_)
    if runs is not None:
        common = CommonCodes.cut(chunk, runs, start, stop, positive)
    own, numbers = OwnCodes.cut(chunk, start, stop), NumberCodes.cut(chunk, start, stop)
    more = None if added is None else bag_values(added.bags, range(len(added.bags)), 0, len(added.expected))
    of_added = [] if added is None or more is None else [added.scalar.ravel(), more.codes]
    constant = [numbers.codes, chunk.offered_codes, sampled, *of_added]
    scalar = empty((len(own.lines), size_of_batch), np.int32)
    rows = FoundRows.of(deduplicator, own, constant, positive, scalar[:, :examples], common)
    m, index, (bag_index, *of_records) = len(rows.codes), rows.of_constant, rows.of_own
    dense_index, offered_index, sampled_index = index[:3]
    rows.count_others(numbers, positive)
    scalar[:, examples:] = m
    values, dense = own.values, numbers.dense
    if added is not None and more is not None:
        scalar[:, batch_size:] = index[3].reshape(added.scalar.shape)
        bag_index, values = np.concatenate([bag_index, index[4]]), values.followed_by(more, batch_size)
        dense = np.concatenate([dense, np.full((len(dense), batch_size - examples), np.nan, np.float32), added.dense], axis=1)
    window, group, shared = BatchWindow(start, stop, size_of_batch, m, ladders.elements, empty), None, list[History]()
    if runs is not None and common is not None:
        group = common.padded(rows.of_lines, rows.of_arrays, runs, batch_size, m, ladders.values)
        shared = common.histories_of(rows.of_arrays, group, window)
    return Batch(
        examples,
        chunk.keys.take(rows.codes),
        ladders.rows.size(m + 1),
        scalar,
        bag_rows(bag_index, values, ladders.values.size(len(bag_index)) if own.bags else 0, m),
        dense,
        dense_index,
        label,
        filled(chunk.weight[start:stop], size_of_batch, 0),
        blocks_of(chunk, [one.cut(window, of) for one, of in zip(own.records, of_records, strict=True)], shared),
        id=which,
        slots=chunk.slots.take(rows.codes),
        counts=rows.counts,
        clicks=rows.clicks,
        offered_index=offered_index,
        time_seconds=int(chunk.time[start:stop].max()),
        facets=chunk.facets.part(start, stop) if chunk.facets is not None else None,
        sampled_index=sampled_index if len(sampled) else None,
        group=group,
        sides=tuple(side.cut(rows.codes) for side in chunk.sides),
        expected=None if added is None else added.expected,
    )
