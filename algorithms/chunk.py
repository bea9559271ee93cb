"""A chunk of the input as augments see it: encoded examples, which refer to their distinct features by small codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .blocks.base import ABSENT, NO_BLOCKS, Blocks, Codes, InChunk, SlotBlock, gathered, replaced

__all__ = ["ABSENT", "Added", "Bag", "Chunk", "Codes", "Facets", "Keys", "RowRuns", "joined"]

Keys = NDArray[np.uint64]
C = TypeVar("C", bound=InChunk)


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
        histories: the numbers of the groups of sequences among the chunk's HISTORIES.
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
        blocks: what it has of the other slots, by the names of their blocks; see `block`.
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
    blocks: Blocks = NO_BLOCKS
    drawn: Callable[[int, int], Codes] | None = None
    runs: RowRuns | None = None
    sides: tuple[Any, ...] = ()
    added: Callable[[int, int], Added] | None = None

    def block(self, block: SlotBlock[Any, C, Any]) -> tuple[C, ...]:
        """Return the records of a block."""
        return self.blocks.get(block.name, ())

    def having(self, block: SlotBlock[Any, C, Any], records: Iterable[C]) -> Chunk:
        """Return the chunk with other records of a block."""
        return self._replace(blocks=replaced(self.blocks, block, records))

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
