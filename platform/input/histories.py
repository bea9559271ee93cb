"""Sequences of a batch, histories and arrays of vectors, padded to one of a few lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algorithms.chunk import Histories, VectorArrays
from ..ps.compiled.aligned import empty
from .vocabulary import ABSENT, Codes

SHORTEST = 16


class Padded(NamedTuple):
    """The histories of one group in a batch, oldest element first, as `algorithms.base.History` has them.

    Attributes:
        rows: int32[fields, batch, L], m where an element is absent or NULL.
        mask: bool[batch, L]; an element has a value in some field.
    """

    rows: Codes
    mask: NDArray[np.bool_]

    def empty(self, batch_size: int) -> Padded:
        """Return histories without elements for another number of examples, padded to the same length."""
        fields, _, length = self.rows.shape
        return Padded(np.zeros((fields, batch_size, length), np.int32), np.zeros((batch_size, length), np.bool_))


class PaddedVectors(NamedTuple):
    """The vectors of one slot in a batch, as `algorithms.inputs.Vectors` has them.

    Attributes:
        values: float32[batch, L, dim], zeros where a vector is absent.
        mask: bool[batch, L]; some element of the vector is a number.
    """

    values: NDArray[np.float32]
    mask: NDArray[np.bool_]

    @classmethod
    def cut(
        cls, arrays: VectorArrays, start: int, stop: int, batch_size: int, length_of: Callable[[int, int], int]
    ) -> PaddedVectors:
        """Return the vectors of examples start:stop; padded examples have none.

        Args:
            length_of: see padded_length.
        """
        lengths, low, high = np.diff(arrays.offsets[start : stop + 1]), arrays.offsets[start], arrays.offsets[stop]
        length = length_of(int(lengths.max(initial=0)), arrays.length)
        there = np.zeros((batch_size, length), np.bool_)
        there[: stop - start] = np.arange(length) < lengths[:, None]
        values = empty((batch_size, length, arrays.values.shape[1]), np.float32)
        values[...] = 0
        own = arrays.values[low:high]
        finite = np.isfinite(own)
        values[there] = np.where(finite, own, np.float32(0))
        there[there] = finite.any(axis=1)
        return cls(values, there)

    def empty(self, batch_size: int) -> PaddedVectors:
        """Return arrays without vectors for another number of examples, padded to the same length."""
        _, length, dim = self.values.shape
        return PaddedVectors(np.zeros((batch_size, length, dim), np.float32), np.zeros((batch_size, length), np.bool_))


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
        absent: the row for absent elements.
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
    """Return the padded length: 16, 64, 256, ..., at most `most`. The longest history of a batch is seldom much shorter."""
    length = SHORTEST
    while length < longest:
        length *= 4
    return min(length, most)
