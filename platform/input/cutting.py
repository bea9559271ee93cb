"""What a batch takes of a chunk: the codes of some examples, and the rows of all codes, found at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algorithms.blocks.base import ABSENT, NO_BLOCKS, Blocks, InChunk
from ...algorithms.blocks.histories import HISTORIES
from ...algorithms.chunk import Chunk
from ..ps._native import Deduplicator
from .runs.groups import CommonCodes, Values, bag_values, padded_groups

Codes = NDArray[np.int32]
Floats = NDArray[np.float32]
Counts = NDArray[np.uint32]
NO_CODES = np.empty(0, np.int32)
NO_LINES = np.empty((0, 0), np.int32)


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

    def count_others(self, numbers: NumberCodes, positive: NDArray[np.bool_]) -> None:
        """Count what examples do not have as features: what is offered is of all, a number of those that have it, and what was
        drawn or added did not occur."""
        dense_index, offered_index, *did_not_occur = self.of_constant
        self.counts[offered_index], self.clicks[offered_index] = len(positive), positive.sum()
        numbers.write_counts(dense_index, self.counts, self.clicks, positive)
        if any(map(len, did_not_occur)):
            uncount(self.counts, self.clicks, np.concatenate(did_not_occur), positive[0])


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
