"""Histories of a batch: the aligned sequences of its examples, padded to one of a few lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algorithms.chunk import Histories
from ..ps.aligned import empty
from .vocabulary import ABSENT, Codes

SHORTEST = 8


class Padded(NamedTuple):
    """The histories of one group in a batch, oldest element first, as `algorithms.base.History` has them.

    Attributes:
        rows: int32[fields, batch, L], m where there is no element or it is NULL.
        mask: bool[batch, L]; an element has a value in some field.
    """

    rows: Codes
    mask: NDArray[np.bool_]

    def empty(self, batch_size: int) -> Padded:
        """Return histories without elements for another number of examples, padded to the same length."""
        fields, _, length = self.rows.shape
        return Padded(np.zeros((fields, batch_size, length), np.int32), np.zeros((batch_size, length), np.bool_))


def elements(groups: Sequence[Histories], start: int, stop: int) -> tuple[Codes, Codes]:
    """Return the codes of the elements of examples start:stop, group by group and field by field, and the example of each."""
    codes, examples = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for group in groups:
        low, high = group.offsets[start], group.offsets[stop]
        own = np.repeat(np.arange(stop - start, dtype=np.int32), np.diff(group.offsets[start : stop + 1]))
        codes.append(group.codes[:, low:high].reshape(-1))
        examples.append(np.tile(own, len(group.codes)))
    return np.concatenate(codes), np.concatenate(examples)


def padded_histories(
    groups: Sequence[Histories],
    index: Codes,
    start: int,
    stop: int,
    batch_size: int,
    absent: int,
    length_of: Callable[[int, int], int],
) -> tuple[Padded, ...]:
    """Return the histories of examples start:stop.

    Args:
        index: int32[k], the row of each code that `elements` gives.
        absent: the row of what is not there.
        length_of: see padded_length.
    """
    found, at = [], 0
    for group in groups:
        fields, (low, high) = len(group.codes), (group.offsets[start], group.offsets[stop])
        lengths = np.diff(group.offsets[start : stop + 1])
        places = np.arange(high - low) - np.repeat(group.offsets[start:stop] - low, lengths)
        examples = np.repeat(np.arange(stop - start), lengths)
        length = length_of(int(lengths.max(initial=0)), group.length)
        rows, mask = empty((fields, batch_size, length), np.int32), np.zeros((batch_size, length), np.bool_)
        rows[...] = absent
        count = fields * int(high - low)
        rows[:, examples, places] = index[at : at + count].reshape(fields, -1)
        mask[examples, places] = (group.codes[:, low:high] != ABSENT).any(axis=0)
        found.append(Padded(rows, mask))
        at += count
    return tuple(found)


def padded_length(longest: int, most: int) -> int:
    """Return the length that histories are padded to: 8, 16, 32, ..., and `most` where they may have no more."""
    length = SHORTEST
    while length < longest:
        length *= 2
    return min(length, most)
