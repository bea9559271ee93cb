"""Groups of a batch: what the examples of a run have in common, which a batch holds once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....algorithms.blocks.bags import BagRows
from ....algorithms.blocks.base import BatchWindow
from ....algorithms.blocks.histories import HISTORIES, Histories, History
from ....algorithms.chunk import Bag, Chunk, RowRuns
from ...ps.compiled.aligned import empty, filled
from ...ps.compiled.ladder import Ladder

Codes = NDArray[np.int32]
Floats = NDArray[np.float32]
FEWEST = 16


class Values(NamedTuple):
    """The values of multi-valued slots: codes, owners (examples or groups), slot numbers and weights, [k] each."""

    codes: Codes
    owners: Codes
    slots: Codes
    weights: Floats

    def followed_by(self, others: Values, first: int) -> Values:
        """Return these values followed by other owners' values, which are numbered from `first` on."""
        theirs = others._replace(owners=others.owners + np.int32(first))
        return Values(*(np.concatenate(arrays) for arrays in zip(self, theirs, strict=True)))


class BatchGroup(NamedTuple):
    """The groups of a batch, padded, as `algorithms.lines.Group` has them, and the common lines.

    Attributes:
        scalar: int32[k, groups], the rows of common lines; m where absent, and in groups without examples.
        owner: int32[batch]; padded examples are in the last group.
        values: of multi-valued and weighted slots, each with its group.
        lines: of all lines, whether each is a common one.
        bags: the common multi-valued slots.
        histories: the groups of sequences that are common, whose HISTORIES have groups in the place of examples.
    """

    scalar: Codes
    owner: Codes
    values: BagRows
    lines: tuple[bool, ...]
    bags: tuple[int, ...]
    histories: tuple[int, ...]


class CommonCodes(NamedTuple):
    """The codes that the groups of examples start:stop of a chunk have in common.

    Attributes:
        owner: int32[examples], the group of each.
        scalar: int32[k, groups].
        values: of multi-valued slots.
        histories: an entry for each group.
        sizes, clicks: uint32[groups], how many examples a group has, and how many of them have a positive label.
    """

    owner: Codes
    scalar: Codes
    values: Values
    histories: tuple[Histories, ...]
    sizes: NDArray[np.uint32]
    clicks: NDArray[np.uint32]

    @classmethod
    def cut(cls, chunk: Chunk, runs: RowRuns, start: int, stop: int, positive: NDArray[np.bool_]) -> CommonCodes:
        """Take them from a chunk; a run may begin before the first example, and end after the last.

        Args:
            positive: bool[stop - start], whether the label is.
        """
        low, high = np.searchsorted(runs.starts, start, side="right"), np.searchsorted(runs.starts, stop)
        begins = np.append(np.int64(start), runs.starts[low:high])
        sizes = np.diff(np.append(begins, stop))
        entries = np.arange(low - 1, high) if runs.held else begins
        bags = [chunk.bags[number].take(entries) for number in runs.bags]
        return cls(
            np.repeat(np.arange(len(begins), dtype=np.int32), sizes),
            chunk.scalar[np.flatnonzero(runs.lines)[:, None], begins],
            bag_values(bags, runs.bags, 0, len(begins)),
            tuple(chunk.block(HISTORIES)[number].take(entries) for number in runs.histories),
            sizes.astype(np.uint32),
            np.add.reduceat(positive, begins - start, dtype=np.uint32),
        )

    def empty_index(self, size: int) -> Codes:
        """Return an array for the rows of common lines, int32[k, size]."""
        return empty((len(self.scalar), size), np.int32)

    @property
    def arrays(self) -> tuple[Codes, Codes]:
        """The codes of values, then of the elements of histories, and the group of each."""
        values, found = self.values, [one.features(0, len(self.sizes)) for one in self.histories]
        codes = np.concatenate([values.codes, *(codes for codes, _ in found)])
        return codes, np.concatenate([values.owners, *(groups for _, groups in found)])

    def histories_of(self, index: Codes, group: BatchGroup, window: BatchWindow) -> list[History]:
        """Return histories, an entry for each group, and one after them.

        Args:
            index: the rows of `arrays`.
            window: of the batch.
        """
        found, at = [], len(self.values.codes)
        of_groups = window._replace(start=0, stop=len(self.sizes), size=group.scalar.shape[1])
        for one in self.histories:
            rows = index[at : (at := at + one.codes.size)]
            owner: Any = group.owner
            found.append(one.cut(of_groups, rows)._replace(owner=owner))
        return found

    def padded(self, scalar: Codes, index: Codes, runs: RowRuns, batch_size: int, absent: int, ladder: Ladder) -> BatchGroup:
        """Return the groups of a batch.

        Args:
            scalar: int32[k, size], whose first columns are the rows of common lines.
            index: the rows of `arrays`.
            absent: the row for absent features.
            ladder: of values.
        """
        index = index[: len(self.values.codes)]
        scalar[:, len(self.sizes) :] = absent
        size = ladder.size(len(index)) if runs.bags else 0
        return BatchGroup(
            scalar=scalar,
            owner=filled(self.owner, batch_size, scalar.shape[1] - 1),
            values=bag_rows(index, self.values, size, absent),
            lines=runs.lines,
            bags=runs.bags,
            histories=runs.histories,
        )


def padded_groups(groups: int) -> int:
    """Return the padded number of groups, with at least one that has no examples: 2, 16, 32, 64, ..."""
    size = 2 if groups == 1 else FEWEST
    while size <= groups:
        size *= 2
    return size


NO_VALUES = Values(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))


def bag_values(bags: Sequence[Bag], numbers: Sequence[int], start: int, stop: int) -> Values:
    """Return the values of some multi-valued slots, given by their numbers, in rows start:stop."""
    parts = [NO_VALUES]
    for slot, bag in zip(numbers, bags, strict=True):
        low, high = bag.offsets[start], bag.offsets[stop]
        owners = np.repeat(np.arange(stop - start, dtype=np.int32), np.diff(bag.offsets[start : stop + 1]))
        parts.append(Values(bag.codes[low:high], owners, np.full(high - low, slot, np.int32), bag.weights[low:high]))
    return Values(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def bag_rows(index: Codes, values: Values, size: int, absent: int) -> BagRows:
    """Return values with padding.

    Args:
        index: int32[k], their rows.
        absent: the row of padding.
    """
    others = (filled(array, size) for array in (values.owners, values.slots, values.weights))
    own: Any = filled(index, size, absent), *others
    return BagRows(*own)
