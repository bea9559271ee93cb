"""Batches: runs of encoded examples with their unique keys, padded so that JAX sees few shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algorithms.chunk import Added, Chunk, Facets, Histories
from ..ps._native import Deduplicator
from ..ps.compiled.aligned import empty, filled, padded
from ..ps.compiled.ladder import Ladder
from ..ps.messages import BatchId
from .histories import Padded, PaddedVectors, elements, padded_histories, padded_length
from .runs import BatchGroup, CommonCodes, bag_values, padded_groups
from .side.table import SideRows
from .vocabulary import ABSENT

Codes = NDArray[np.int32]
Floats = NDArray[np.float32]


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
        histories: one per group of sequences; those that `group` names have an entry for each group of examples.
        vector_arrays: one per slot of arrays of vectors.
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
    histories: tuple[Padded, ...] = ()
    group: BatchGroup | None = None
    vector_arrays: tuple[PaddedVectors, ...] = ()
    sides: tuple[SideRows, ...] = ()
    expected: Floats | None = None


class Ladders(NamedTuple):
    """The sizes that batches are padded to: rows, values of multi-valued slots, and lengths of histories and arrays."""

    rows: Ladder
    values: Ladder
    histories: Callable[[int, int], int] = padded_length


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
    examples = stop - start
    size_of_batch = batch_size + (0 if added is None else len(added.expected))
    label = padded(chunk.label[:, start:stop], size_of_batch)
    positive = label[0, :examples] > 0 if len(label) else np.zeros(examples, np.bool_)
    runs, common = chunk.runs, None
    if runs is not None:
        common = CommonCodes.cut(chunk, runs, start, stop, positive)
    codes_of_slots, numbers, sequences = own_slots(chunk, start, stop)
    bag = bag_values([chunk.bags[number] for number in numbers], numbers, start, stop)
    dense = chunk.dense[:, start:stop]
    present = ~np.isnan(dense)
    dense_counts = present.sum(axis=1)
    seen = dense_counts > 0
    dense_codes = np.where(seen, chunk.dense_codes, ABSENT).astype(np.int32)
    values, examples_of_values = bag.codes, bag.owners
    if sequences:
        history_codes, history_examples = elements(sequences, start, stop)
        values, examples_of_values = np.append(values, history_codes), np.append(examples_of_values, history_examples)
    codes_of_bag = np.concatenate([values, dense_codes, chunk.offered_codes, sampled])
    if added is not None:
        of_added = bag_values(added.bags, range(len(added.bags)), 0, len(added.expected))
        codes_of_bag = np.concatenate([codes_of_bag, added.scalar.ravel(), of_added.codes])
    example = np.concatenate([examples_of_values, np.zeros(len(codes_of_bag) - len(values), np.int32)])
    scalar, index = empty((len(codes_of_slots), size_of_batch), np.int32), np.empty(len(codes_of_bag), np.int32)
    own: tuple[Any, ...] = codes_of_slots, codes_of_bag, example, positive.view(np.uint8), scalar[:, :examples], index
    if runs is None or common is None:
        codes, counts, clicks = deduplicator.unique(*own)
        group = None
    else:
        of_lines, arrays = common.empty_index(padded_groups(len(common.sizes))), common.arrays
        of_arrays = np.empty_like(arrays[0])
        into = of_lines[:, : len(common.sizes)], of_arrays
        codes, counts, clicks = deduplicator.unique_of_groups(common.scalar, *arrays, common.sizes, common.clicks, *into, *own)
        group = common.padded(of_lines, of_arrays, runs, batch_size, len(codes), ladders.values)
    m, num_values = len(codes), len(bag.codes)
    scalar[:, examples:] = m
    bounds = np.cumsum([len(seen), len(chunk.offered_codes), len(sampled)])
    dense_index, offered_index, sampled_index, added_index = np.split(index[len(values) :], bounds)
    counts[offered_index], clicks[offered_index] = examples, positive.sum()
    if len(seen):
        counts[dense_index[seen]] = dense_counts[seen]
        clicks[dense_index[seen]] = (present & positive).sum(axis=1)[seen]
    if len(sampled) or added is not None:
        uncount(counts, clicks, index[len(values) + bounds[1] :], positive[0])
    bag_index, history_index, length_of = index[:num_values], index[num_values : len(values)], ladders.histories
    if added is not None:
        scalar[:, batch_size:] = added_index[: added.scalar.size].reshape(added.scalar.shape)
        bag_index = np.concatenate([bag_index, added_index[added.scalar.size :]])
        bag, num_values = bag.followed_by(of_added, batch_size), len(bag_index)
        dense = np.concatenate([dense, np.full((len(dense), batch_size - examples), np.nan, np.float32), added.dense], axis=1)
    size = ladders.values.size(num_values) if numbers else 0
    histories = padded_histories(sequences, history_index, start, stop, size_of_batch, m, length_of)
    if common is not None and group is not None:
        shared = common.padded_histories(of_arrays, group.scalar.shape[1], m, length_of)
        histories = merged(shared, histories, group.histories)
    return Batch(
        id=which,
        examples=examples,
        keys=chunk.keys.take(codes),
        slots=chunk.slots.take(codes),
        counts=counts,
        clicks=clicks,
        size=ladders.rows.size(m + 1),
        scalar=scalar,
        bag_index=filled(bag_index, size, m),
        bag_example=filled(bag.owners, size, 0),
        bag_slot=filled(bag.slots, size, 0),
        bag_weight=filled(bag.weights, size, 0),
        dense=dense,
        dense_index=dense_index,
        offered_index=offered_index,
        label=label,
        weight=filled(chunk.weight[start:stop], size_of_batch, 0),
        time_seconds=int(chunk.time[start:stop].max()),
        facets=chunk.facets.part(start, stop) if chunk.facets is not None else None,
        sampled_index=sampled_index if len(sampled) else None,
        histories=histories,
        group=group,
        vector_arrays=tuple(PaddedVectors.cut(one, start, stop, size_of_batch, length_of) for one in chunk.vector_arrays),
        sides=tuple(side.cut(codes) for side in chunk.sides),
        expected=None if added is None else added.expected,
    )


def own_slots(chunk: Chunk, start: int, stop: int) -> tuple[Codes, Sequence[int], Sequence[Histories]]:
    """Return what examples start:stop do not have in common: the codes of lines, the numbers of bags, and histories."""
    if chunk.runs is None:
        return chunk.scalar[:, start:stop], range(len(chunk.bags)), chunk.histories
    lines, common = np.flatnonzero(np.logical_not(chunk.runs.lines)), chunk.runs.histories
    bags = [bag for bag in range(len(chunk.bags)) if bag not in chunk.runs.bags]
    return chunk.scalar[lines, start:stop], bags, [own for group, own in enumerate(chunk.histories) if group not in common]


def merged(shared: Sequence[Padded], own: Sequence[Padded], common: Sequence[int]) -> tuple[Padded, ...]:
    """Return all histories in order: the common ones have the numbers `common`."""
    of_groups, of_examples = iter(shared), iter(own)
    return tuple(next(of_groups if number in common else of_examples) for number in range(len(shared) + len(own)))


def uncount(counts: NDArray[np.uint32], clicks: NDArray[np.uint32], sampled: Codes, positive: np.bool_) -> None:
    """Take rows, those that are there, out of what was counted of the first example, in place: they did not occur."""
    drawn = np.bincount(sampled, minlength=len(counts) + 1)[: len(counts)].astype(np.uint32)
    counts -= drawn
    if positive:
        clicks -= drawn


NO_CODES = np.empty(0, np.int32)
