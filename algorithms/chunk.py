"""A chunk of the input as augments see it: encoded examples, which refer to their distinct features by small codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]
Keys = NDArray[np.uint64]
ABSENT = -1


class Bag(NamedTuple):
    """The values of one multi-valued or weighted slot.

    Attributes:
        codes: int32[k].
        weights: float32[k].
        offsets: int64[rows + 1]; the values of example i are offsets[i]:offsets[i + 1].
    """

    codes: Codes
    weights: NDArray[np.float32]
    offsets: NDArray[np.int64]

    def take(self, rows: NDArray[np.intp]) -> Bag:
        """Return the bag of some rows."""
        index, offsets = gathered(self.offsets, rows)
        return Bag(self.codes[index], self.weights[index], offsets)


class Histories(NamedTuple):
    """The aligned sequences of one group of slots, oldest element first.

    Attributes:
        codes: int32[fields, k]; -1 where an element is NULL.
        offsets: int64[rows + 1]; the elements of example i are offsets[i]:offsets[i + 1].
        length: the most elements that an example has.
    """

    codes: Codes
    offsets: NDArray[np.int64]
    length: int

    def take(self, rows: NDArray[np.intp]) -> Histories:
        """Return the histories of some rows."""
        index, offsets = gathered(self.offsets, rows)
        return Histories(self.codes.take(index, axis=1), offsets, self.length)


class VectorArrays(NamedTuple):
    """The vectors of one slot, any number for each example, the oldest first.

    Attributes:
        values: float32[k, dim]; NaN in all of a vector that is NULL.
        offsets: int64[rows + 1]; the vectors of example i are offsets[i]:offsets[i + 1].
        length: the most vectors that an example has.
    """

    values: NDArray[np.float32]
    offsets: NDArray[np.int64]
    length: int

    def take(self, rows: NDArray[np.intp]) -> VectorArrays:
        """Return the vectors of some rows."""
        index, offsets = gathered(self.offsets, rows)
        return VectorArrays(self.values[index], offsets, self.length)


def gathered(offsets: NDArray[np.int64], rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the values of some rows stand, and the offsets of these rows."""
    lengths, starts = np.diff(offsets)[rows], offsets[rows]
    own = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.arange(own[-1]) - np.repeat(own[:-1] - starts, lengths), own


class Facets(NamedTuple):
    """What an evaluation knows of examples beside label and prediction; empty where it asks for none.

    Attributes:
        groups: uint64[rows], hashes of the GROUP column.
        segments: str[rows], values of the BY column.
    """

    groups: NDArray[np.uint64]
    segments: NDArray[np.object_]

    def part(self, start: int, stop: int) -> Facets:
        """Return the values of examples start:stop."""
        return Facets(self.groups[start:stop], self.segments[start:stop])


class RowRuns(NamedTuple):
    """Neighbouring examples that agree in some slots.

    Attributes:
        starts: int64[runs], the first example of each; ascending, from 0 on.
        lines: of `Chunk.scalar`, whether each is one of the slots.
        bags: the numbers of the slots among `Chunk.bags`.
        histories: the numbers of the groups of sequences among `Chunk.histories`.
        held: these bags and histories have an entry for each run, not for each example.
    """

    starts: NDArray[np.int64]
    lines: tuple[bool, ...]
    bags: tuple[int, ...]
    histories: tuple[int, ...] = ()
    held: bool = False


class Added(NamedTuple):
    """Examples that a batch has after its own, which did not occur: they count nothing and weigh nothing, but may be compared
    with. Items drawn at random are such.

    Attributes:
        scalar, bags, dense: as a chunk has them.
        expected: float32[n], how often each is expected in a batch.
    """

    scalar: Codes
    bags: tuple[Bag, ...]
    dense: NDArray[np.float32]
    expected: NDArray[np.float32]


class Chunk(NamedTuple):
    """Encoded examples.

    Attributes:
        keys: uint64[num_codes], distinct.
        slots: uint16[num_codes], the slot of each key.
        scalar: int32[num_scalar, rows] of codes; -1 is absent.
        bags: one per multi-valued or weighted slot.
        dense: float32[num_dense, rows], NaN where absent.
        dense_codes: int32[num_dense].
        offered_codes: int32[num_offered], the rows that are learned for what operators offer.
        label: float32[num_labels, rows], see labels_of.
        weight: float32[rows].
        time: uint32[rows], seconds since 1970; 0 without TIME.
        facets: of an evaluation that groups or divides examples; None elsewhere.
        histories: one per group of sequences.
        vector_arrays: one per slot of arrays of vectors.
        drawn: (pass, number of a batch in its split) -> codes of features drawn at random for it; None where none are.
        runs: what neighbouring examples agree in; None where nobody looked, or they agree in too little.
        sides: of the vectors with ids of each kind, which of them each feature has; see `platform.input.side.table.SideCodes`.
        added: (pass, number of a batch in its split) -> the examples that it has after its own; None where it has no others.
    """

    keys: NDArray[np.uint64]
    slots: NDArray[np.uint16]
    scalar: Codes
    bags: tuple[Bag, ...]
    dense: NDArray[np.float32]
    dense_codes: Codes
    offered_codes: Codes
    label: NDArray[np.float32]
    weight: NDArray[np.float32]
    time: NDArray[np.uint32]
    facets: Facets | None = None
    histories: tuple[Histories, ...] = ()
    vector_arrays: tuple[VectorArrays, ...] = ()
    drawn: Callable[[int, int], Codes] | None = None
    runs: RowRuns | None = None
    sides: tuple[Any, ...] = ()
    added: Callable[[int, int], Added] | None = None

    def with_features(self, keys: Keys, slots: NDArray[np.uint16]) -> tuple[Chunk, Codes]:
        """Return the chunk with further features, and the code of each of them; some may be there already.

        Args:
            keys, slots: of each feature.
        """
        every, codes = joined(self.keys, keys)
        numbers = np.zeros(len(every), np.uint16)
        numbers[codes] = slots
        numbers[: len(self.keys)] = self.slots
        chunk = self._replace(keys=every, slots=numbers)
        return chunk._replace(sides=tuple(side.table.codes(chunk) for side in self.sides)), codes


def joined(keys: Keys, more: Keys) -> tuple[Keys, Codes]:
    """Return distinct keys followed by new ones among other keys, and the positions of the other keys."""
    order = np.argsort(keys)
    at = np.minimum(np.searchsorted(keys, more, sorter=order), max(len(keys) - 1, 0))
    there = keys[order[at]] == more if len(keys) else np.zeros(len(more), bool)
    new, inverse = np.unique(more[~there], return_inverse=True)
    codes = np.empty(len(more), np.int32)
    codes[there] = order[at[there]]
    codes[~there] = len(keys) + inverse
    return np.concatenate([keys, new]), codes
