"""Batches: runs of encoded examples with their unique keys, padded so that JAX sees few shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...algorithms.blocks.base import ABSENT, NO_BLOCKS, BatchWindow, Blocks, InBatch, InChunk, SlotBlock
from ...algorithms.blocks.histories import HISTORIES
from ...algorithms.chunk import Added, Chunk, Facets
from ..ps._native import Deduplicator
from ..ps.compiled.aligned import empty, filled, padded
from ..ps.compiled.ladder import Ladder
from ..ps.messages import BatchId
from .runs import BatchGroup, CommonCodes, Values, bag_values, padded_groups
from .side.table import SideRows

Codes = NDArray[np.int32]
Floats = NDArray[np.float32]
Counts = NDArray[np.uint32]
B = TypeVar("B", bound=InBatch)
SHORTEST = 16


class Batch(NamedTuple):
    """One batch, m unique keys; index m means absent, arrays over keys are padded to `size` > m by whoever pulls.

    Attributes:
        id: which batch it is.
        examples: real ones; the rest up to the batch size is padding.
        keys: uint64[m]; slots: uint16[m]; counts, clicks: uint32[m].
        size: padded number of rows.
        scalar: int32[num_scalar, batch].
        bag_index, bag_example, bag_slot: int32[k]; bag_weight: float32[k].
        dense: float32[num_dense, examples], raw, NaN where absent; dense_index: int32[num_dense].
        offered_index: int32[num_offered], the rows that are learned for what operators offer.
        label: float32[num_labels, batch]; weight: float32[batch].
        time_seconds: newest TIME of the batch.
        facets: of an evaluation that groups or divides examples; None elsewhere.
        applied: every shard has it already: it is scored, not learned from again.
        counted: the metrics have it already.
        fresh: no shard has it yet, so that its predictions do not depend on its labels.
        term: of its turn, see TurnAssignment.
        sampled_index: int32[num_sampled], the rows of features drawn at random; None where none are.
        blocks: what it has of the other slots, as `Inputs` has it.
        group: what neighbouring examples have in common; `scalar` and the values of bags then lack it.
        sides: of the vectors with ids of each kind, which of them each row has.
        expected: float32[n], of the examples after the batch's own, see Added; None where there are none. `scalar`, `dense`,
            `label` and `weight` have n more columns for them, and `dense` has the padding's columns before them.
    """

    id: BatchId
    examples: int
    keys: NDArray[np.uint64]
    slots: NDArray[np.uint16]
    counts: NDArray[np.uint32]
    clicks: NDArray[np.uint32]
    size: int
    scalar: Codes
    bag_index: Codes
    bag_example: Codes
    bag_slot: Codes
    bag_weight: Floats
    dense: Floats
    dense_index: Codes
    offered_index: Codes
    label: Floats
    weight: Floats
    time_seconds: int
    facets: Facets | None = None
    applied: bool = False
    counted: bool = False
    fresh: bool = True
    term: int = 0
    sampled_index: Codes | None = None
    blocks: Blocks = NO_BLOCKS
    group: BatchGroup | None = None
    sides: tuple[SideRows, ...] = ()
    expected: Floats | None = None

    def block(self, block: SlotBlock[Any, Any, B]) -> tuple[B, ...]:
        """Return the records of a block, of NumPy's arrays."""
        return self.blocks.get(block.name, ())


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
    constant = [numbers.codes, chunk.offered_codes, sampled]
    if added is not None and more is not None:
        constant += [added.scalar.ravel(), more.codes]
    scalar = empty((len(own.lines), size_of_batch), np.int32)
    rows = FoundRows.of(deduplicator, own, constant, positive, scalar[:, :examples], common)
    m, counts, clicks = len(rows.codes), rows.counts, rows.clicks
    scalar[:, examples:] = m
    index, (bag_index, *of_records) = rows.of_constant, rows.of_own
    dense_index, offered_index, sampled_index = index[:3]
    counts[offered_index], clicks[offered_index] = examples, positive.sum()
    numbers.write_counts(dense_index, counts, clicks, positive)
    if len(sampled) or added is not None:
        uncount(counts, clicks, np.concatenate(index[2:]), positive[0])
    values, dense = own.values, numbers.dense
    if added is not None and more is not None:
        scalar[:, batch_size:] = index[3].reshape(added.scalar.shape)
        bag_index, values = np.concatenate([bag_index, index[4]]), values.followed_by(more, batch_size)
        dense = np.concatenate([dense, np.full((len(dense), batch_size - examples), np.nan, np.float32), added.dense], axis=1)
    group = None
    if runs is not None and common is not None:
        group = common.padded(rows.of_lines, rows.of_arrays, runs, batch_size, m, ladders.values)
    window = BatchWindow(start, stop, size_of_batch, m, ladders.elements, empty)
    shared = [] if common is None or group is None else common.histories_of(rows.of_arrays, group, window)
    size = ladders.values.size(len(bag_index)) if own.bags else 0
    return Batch(
        id=which,
        examples=examples,
        keys=chunk.keys.take(rows.codes),
        slots=chunk.slots.take(rows.codes),
        counts=counts,
        clicks=clicks,
        size=ladders.rows.size(m + 1),
        scalar=scalar,
        bag_index=filled(bag_index, size, m),
        bag_example=filled(values.owners, size, 0),
        bag_slot=filled(values.slots, size, 0),
        bag_weight=filled(values.weights, size, 0),
        dense=dense,
        dense_index=dense_index,
        offered_index=offered_index,
        label=label,
        weight=filled(chunk.weight[start:stop], size_of_batch, 0),
        time_seconds=int(chunk.time[start:stop].max()),
        facets=chunk.facets.part(start, stop) if chunk.facets is not None else None,
        sampled_index=sampled_index if len(sampled) else None,
        blocks=blocks_of(chunk, [one.cut(window, of) for one, of in zip(own.records, of_records, strict=True)], shared),
        group=group,
        sides=tuple(side.cut(rows.codes) for side in chunk.sides),
        expected=None if added is None else added.expected,
    )


class OwnCodes(NamedTuple):
    """What examples of a chunk do not have in common.

    Attributes:
        lines: int32[lines, examples], the codes of categorical slots.
        bags: the numbers of multi-valued slots; values: of these.
        records: of blocks, one block after the other.
    """

    lines: Codes
    bags: Sequence[int]
    values: Values
    records: Sequence[InChunk]
    start: int
    stop: int

    @classmethod
    def cut(cls, chunk: Chunk, start: int, stop: int) -> OwnCodes:
        """Take them from examples start:stop."""
        runs, lines = chunk.runs, chunk.scalar[:, start:stop]
        bags: Sequence[int] = range(len(chunk.bags))
        if runs is not None:
            lines = chunk.scalar[np.flatnonzero(np.logical_not(runs.lines)), start:stop]
            bags = [bag for bag in bags if bag not in runs.bags]
        records = [own for _, own, common in records_of(chunk) if not common]
        return cls(lines, bags, bag_values([chunk.bags[bag] for bag in bags], bags, start, stop), records, start, stop)

    @property
    def features(self) -> list[tuple[Codes, Codes]]:
        """The codes of multi-valued slots, then of each record, and the example of each."""
        return [(self.values.codes, self.values.owners), *(own.features(self.start, self.stop) for own in self.records)]


class NumberCodes(NamedTuple):
    """The numbers of examples of a chunk.

    Attributes:
        dense: float32[num_dense, examples], NaN where absent; present: bool of the same shape.
        counts: int64[num_dense], how many examples have each.
        codes: int32[num_dense], ABSENT where no example has the number.
    """

    dense: Floats
    present: NDArray[np.bool_]
    counts: NDArray[np.int64]
    codes: Codes

    @classmethod
    def cut(cls, chunk: Chunk, start: int, stop: int) -> NumberCodes:
        """Take them from examples start:stop."""
        dense = chunk.dense[:, start:stop]
        present = ~np.isnan(dense)
        counts = present.sum(axis=1)
        return cls(dense, present, counts, np.where(counts > 0, chunk.dense_codes, ABSENT).astype(np.int32))

    def write_counts(self, index: Codes, counts: Counts, clicks: Counts, positive: NDArray[np.bool_]) -> None:
        """Set how many examples have each number, and how many of them have a positive label, in place.

        Args:
            index: int32[num_dense], the row of each number.
        """
        if len(self.codes):
            seen = self.counts > 0
            counts[index[seen]] = self.counts[seen]
            clicks[index[seen]] = (self.present & positive).sum(axis=1)[seen]


class FoundRows(NamedTuple):
    """The rows of a batch: which features it has, and where each of its codes finds its own.

    Attributes:
        codes: int32[m], distinct.
        counts, clicks: uint32[m].
        of_own: rows of the codes that examples have of their own, as `OwnCodes.features` gives them.
        of_constant: of codes that no example has, as they were given.
        of_lines: int32[k, groups]; of_arrays: int32[n], of what groups have in common, see CommonCodes; else empty.
    """

    codes: Codes
    counts: Counts
    clicks: Counts
    of_own: list[Codes]
    of_constant: list[Codes]
    of_lines: Codes
    of_arrays: Codes

    @classmethod
    def of(
        cls,
        deduplicator: Deduplicator,
        own: OwnCodes,
        constant: list[Codes],
        positive: NDArray[np.bool_],
        scalar: Codes,
        common: CommonCodes | None,
    ) -> FoundRows:
        """Find the rows of all codes of a batch, and count them.

        Args:
            scalar: int32[lines, examples], where the rows of categorical slots are written.
        """
        features = own.features
        codes = np.concatenate([*(codes for codes, _ in features), *constant])
        nobody = np.zeros(sum(map(len, constant)), np.int32)
        examples, index = np.concatenate([*(owners for _, owners in features), nobody]), np.empty(len(codes), np.int32)
        given: tuple[Any, ...] = own.lines, codes, examples, positive.view(np.uint8), scalar, index
        of_lines, of_arrays = NO_LINES, NO_CODES
        if common is None:
            found = deduplicator.unique(*given)
        else:
            of_lines, arrays = common.empty_index(padded_groups(len(common.sizes))), common.arrays
            of_arrays = np.empty_like(arrays[0])
            into = of_lines[:, : len(common.sizes)], of_arrays
            found = deduplicator.unique_of_groups(common.scalar, *arrays, common.sizes, common.clicks, *into, *given)
        at = 0
        pieces = [index[at : (at := at + len(part))] for part in (*(codes for codes, _ in features), *constant)]
        return cls(*found, pieces[: len(features)], pieces[len(features) :], of_lines, of_arrays)


def records_of(chunk: Chunk) -> Iterator[tuple[str, InChunk, bool]]:
    """Yield the records of a chunk's blocks, with the block's name, and whether neighbouring examples have it in common."""
    histories = () if chunk.runs is None else chunk.runs.histories
    for name, records in chunk.blocks.items():
        for number, record in enumerate(records):
            yield name, record, name == HISTORIES.name and number in histories


def blocks_of(chunk: Chunk, own: Sequence[Any], shared: Sequence[Any]) -> Blocks:
    """Return the blocks of a batch, of the records that examples have of their own, and of those in common."""
    if not chunk.blocks:
        return NO_BLOCKS
    of_examples, of_groups = iter(own), iter(shared)
    found: dict[str, list[Any]] = {}
    for name, _, common in records_of(chunk):
        found.setdefault(name, []).append(next(of_groups if common else of_examples))
    return {name: tuple(records) for name, records in found.items()}


def uncount(counts: Counts, clicks: Counts, sampled: Codes, positive: np.bool_) -> None:
    """Take rows, those that are there, out of what was counted of the first example, in place: they did not occur."""
    drawn = np.bincount(sampled, minlength=len(counts) + 1)[: len(counts)].astype(np.uint32)
    counts -= drawn
    if positive:
        clicks -= drawn


NO_CODES = np.empty(0, np.int32)
NO_LINES = np.empty((0, 0), np.int32)
