"""Batches: runs of encoded examples with their unique keys, padded so that JAX sees few shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..ps._native import Deduplicator
from ..ps.ladder import Ladder
from .encode import Bag, Chunk

Codes = NDArray[np.int32]
Floats = NDArray[np.float32]


class Batch(NamedTuple):
    """One batch, m unique keys; index m means absent, arrays over keys are padded to `size` > m by whoever pulls.

    Attributes:
        number: of the batch within its split.
        examples: real ones; the rest up to the batch size is padding.
        keys: uint64[m]; slots: uint16[m]; counts, clicks: uint32[m].
        size: padded number of rows.
        scalar: int32[num_scalar, batch].
        bag_index, bag_example, bag_slot: int32[k]; bag_weight: float32[k].
        dense: float32[num_dense, examples], raw, NaN where absent; dense_index: int32[num_dense].
        label: float32[num_labels, batch]; weight: float32[batch].
        time_seconds: newest TIME of the batch.
    """

    number: int
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
    label: Floats
    weight: Floats
    time_seconds: int


class Ladders(NamedTuple):
    """The sizes that a training's batches are padded to: rows, and values of multi-valued slots."""

    rows: Ladder
    values: Ladder


def batches(chunk: Chunk, batch_size: int, first: int, ladders: Ladders) -> Iterator[Batch]:
    """Cut a chunk into batches of `batch_size` examples, the last one shorter, numbered from `first`."""
    unique = Deduplicator(len(chunk.keys))
    rows = len(chunk.weight)
    for number, start in enumerate(range(0, rows, batch_size), first):
        yield cut(chunk, unique, start, min(start + batch_size, rows), batch_size, number, ladders)


def cut(
    chunk: Chunk, deduplicator: Deduplicator, start: int, stop: int, batch_size: int, number: int, ladders: Ladders
) -> Batch:
    """Return examples start:stop of a chunk as one padded batch."""
    examples = stop - start
    label = padded(chunk.label[:, start:stop], batch_size)
    positive = label[0, :examples] > 0 if len(label) else np.zeros(examples, np.bool_)
    values, bag_example, bag_slot, bag_weight = bag_values(chunk.bags, start, stop)
    dense = chunk.dense[:, start:stop]
    present = ~np.isnan(dense)
    dense_counts = present.sum(axis=1)
    dense_codes = np.where(dense_counts > 0, chunk.dense_codes, -1).astype(np.int32)
    scalar = np.empty((len(chunk.scalar), batch_size), np.int32)
    bag = np.concatenate([values, dense_codes])
    bag_index = np.empty(len(bag), np.int32)
    example = np.concatenate([bag_example, np.zeros(len(dense_codes), np.int32)])
    codes, counts, clicks = deduplicator.unique(
        chunk.scalar[:, start:stop], bag, example, positive.view(np.uint8), scalar[:, :examples], bag_index
    )
    m = len(codes)
    scalar[:, examples:] = m
    dense_index = bag_index[len(values) :]
    learned = dense_index[dense_counts > 0]
    counts[learned] = dense_counts[dense_counts > 0]
    clicks[learned] = (present & positive).sum(axis=1)[dense_counts > 0]
    extra = (ladders.values.size(len(values)) if chunk.bags else 0) - len(values)
    return Batch(
        number=number,
        examples=examples,
        keys=chunk.keys[codes],
        slots=chunk.slots[codes],
        counts=counts,
        clicks=clicks,
        size=ladders.rows.size(m + 1),
        scalar=scalar,
        bag_index=np.pad(bag_index[: len(values)], (0, extra), constant_values=m),
        bag_example=np.pad(bag_example, (0, extra)),
        bag_slot=np.pad(bag_slot, (0, extra)),
        bag_weight=np.pad(bag_weight, (0, extra)),
        dense=dense,
        dense_index=np.ascontiguousarray(dense_index),
        label=label,
        weight=padded(chunk.weight[None, start:stop], batch_size)[0],
        time_seconds=int(chunk.time[start:stop].max()),
    )


def bag_values(bags: tuple[Bag, ...], start: int, stop: int) -> tuple[Codes, Codes, Codes, Floats]:
    """Return codes, examples, slot numbers and weights of the multi-valued features of examples start:stop."""
    codes, examples, slots, weights = [EMPTY], [EMPTY], [EMPTY], [EMPTY.astype(np.float32)]
    for slot, bag in enumerate(bags):
        low, high = bag.offsets[start], bag.offsets[stop]
        codes.append(bag.codes[low:high])
        examples.append(np.repeat(np.arange(stop - start, dtype=np.int32), np.diff(bag.offsets[start : stop + 1])))
        slots.append(np.full(high - low, slot, np.int32))
        weights.append(bag.weights[low:high])
    return np.concatenate(codes), np.concatenate(examples), np.concatenate(slots), np.concatenate(weights)


EMPTY = np.empty(0, np.int32)


def padded(values: Floats, size: int) -> Floats:
    """Return values [lines, n] as [lines, size], zeros after the last."""
    whole = np.zeros((len(values), size), np.float32)
    whole[:, : values.shape[1]] = values
    return whole
