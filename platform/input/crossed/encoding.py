"""Crosses of encoded slots: the distinct combinations of a chunk are found by their codes, and hashed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....algorithms.chunk import ABSENT, Bag, Codes
from ...errors import DataError
from ...ps._native import combinations
from ...ps.keys import cross_keys
from ..columns import Columns
from ..kinds.base import BagKind, Encoding
from ..slot import Slot

MOST_VALUES = 1 << 27


class CrossedValues(NamedTuple):
    """The values of a member: their codes and weights (None: all 1), and for each row where its values start and how many it
    has."""

    codes: Codes
    weights: NDArray[np.float32] | None
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


class Crossing:
    """The crosses of one chunk.

    Args:
        table: its columns.
        lines: the codes of categorical slots by name; the codes of crosses are written.
        bags: of multi-valued and weighted slots by name; the bags of crosses are added.
    """

    def __init__(
        self, table: pa.Table, columns: Columns, encoding: Encoding, lines: Mapping[str, Codes], bags: dict[str, Bag]
    ) -> None:
        self._table, self._encoding, self._lines, self._bags = table, encoding, lines, bags
        self._kinds = {slot.name: (slot, kind) for slot, kind in columns.of(BagKind)}
        self._texts: dict[str, pa.Array] = {}

    def encode(self, slot: Slot) -> None:
        """Encode a cross.

        Raises:
            DataError: its arrays have too many combinations.
        """
        if slot.name in self._lines:
            codes = np.stack([self._lines[member] for member in slot.members])
            self._lines[slot.name][:] = self._codes(slot, codes, None)
        else:
            self._bags[slot.name] = self._product(slot)

    def _codes(self, slot: Slot, codes: Codes, positions: Sequence[NDArray[np.int64]] | None) -> Codes:
        """Return the codes of combinations, int32[n], -1 where one of a member is.

        Args:
            codes: int32[members, n].
            positions: int64[n] of each member, the positions of its values; None where they are the same in all.
        """
        first, inverse = combinations(codes)
        texts = [
            (self._values(member), first if positions is None else positions[place].take(first))
            for place, member in enumerate(slot.members)
        ]
        at = self._encoding.add(cross_keys(slot.name, texts), slot)
        return np.where(inverse < 0, np.int32(ABSENT), inverse + np.int32(at))

    def _product(self, slot: Slot) -> Bag:
        """Return the combinations of all values of each row, of which the last member's change first."""
        members = [self._member(name) for name in slot.members]
        sizes = np.stack([member.lengths for member in members]).prod(axis=0)
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if ends[-1] > MOST_VALUES:
            raise DataError(
                f"CROSS makes {ends[-1]:,} values of {slot.name} in {len(sizes):,} rows; {MOST_VALUES:,} are the most. Shorten "
                "the arrays with slice(), or leave the cross out."
            )
        row = np.repeat(np.arange(len(sizes)), sizes)
        rest = np.arange(ends[-1]) - ends[row]
        weights = np.ones(len(row), np.float32)
        positions: list[NDArray[np.int64]] = []
        for member in reversed(members):
            long = member.lengths[row]
            positions.insert(0, at := member.starts[row] + rest % long)
            rest //= long
            weights *= 1 if member.weights is None else member.weights.take(at)
        codes = np.stack([member.codes.take(at) for member, at in zip(members, positions, strict=True)])
        return Bag(self._codes(slot, codes, positions), weights, ends)

    def _member(self, name: str) -> CrossedValues:
        if name in self._bags:
            bag = self._bags[name]
            return CrossedValues(bag.codes, bag.weights, bag.offsets[:-1], np.diff(bag.offsets))
        codes = self._lines[name]
        return CrossedValues(codes, None, np.arange(len(codes)), (codes != ABSENT).astype(np.int64))

    def _values(self, name: str) -> pa.Array:
        """Return the values that the codes of a member stand for, one each."""
        if name not in self._texts:
            column = self._column(name)
            if name in self._kinds:
                _, kind = self._kinds[name]
                values, weights, _ = kind.values(column)
                column = values.filter(pa.array(np.isfinite(weights) & values.is_valid().to_numpy(zero_copy_only=False)))
            self._texts[name] = column
        return self._texts[name]

    def _column(self, name: str) -> pa.Array:
        return self._table.column(name).combine_chunks()
