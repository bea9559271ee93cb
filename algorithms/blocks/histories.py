"""Histories: features in order, the aligned sequences of the slots that one option names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...platform.errors import DataError
from .base import ABSENT, Array, BatchWindow, Cells, Codes, Offsets, SlotBlock, SlotLike, gathered
from .searched import SEARCHED, SearchedSpans, SpanElements, spans_of

if TYPE_CHECKING:
    import jax

ARRAYS: Mapping[str, Array] = {"rows": Array("fBL", np.int32), "mask": Array("BL", np.bool_)}


class HistorySlots(NamedTuple):
    """The slots of a group of sequences, and the option that names them."""

    option: str
    slots: tuple[str, ...]


class Elements(NamedTuple):
    """The elements of one sequence slot, as its kind makes them of a column.

    Attributes:
        codes: int32[k], of the kept elements; -1 where one is NULL.
        kept: int64[rows], how many elements of each row are kept, its last ones.
        lengths: int64[rows], how many each row has.
    """

    codes: Codes
    kept: NDArray[np.int64]
    lengths: NDArray[np.int64]


class Histories(NamedTuple):
    """The aligned sequences of one group of slots in a chunk, oldest element first.

    Attributes:
        codes: int32[fields, k]; -1 where an element is NULL.
        offsets: int64[rows + 1]; the elements of example i are offsets[i]:offsets[i + 1].
        length: the most elements that an example has.
    """

    codes: Codes
    offsets: Offsets
    length: int

    def take(self, rows: NDArray[np.intp]) -> Histories:
        """See InChunk."""
        index, offsets = gathered(self.offsets, rows)
        return Histories(self.codes.take(index, axis=1), offsets, self.length)

    def coded(self, codes: Codes) -> Histories:
        """See InChunk."""
        return self._replace(codes=codes.take(self.codes, mode="wrap"))

    def features(self, start: int, stop: int) -> tuple[Codes, Codes]:
        """See InChunk: field by field."""
        low, high = self.offsets[start], self.offsets[stop]
        own = np.repeat(np.arange(stop - start, dtype=np.int32), np.diff(self.offsets[start : stop + 1]))
        return self.codes[:, low:high].reshape(-1), np.tile(own, len(self.codes))

    def cut(self, window: BatchWindow, rows: Codes) -> History:
        """See InChunk."""
        start, stop = window.start, window.stop
        fields, (low, high) = len(self.codes), (self.offsets[start], self.offsets[stop])
        lengths = np.diff(self.offsets[start : stop + 1])
        places = np.arange(high - low) - np.repeat(self.offsets[start:stop] - low, lengths)
        examples = np.repeat(np.arange(stop - start), lengths)
        length = window.length_of(int(lengths.max(initial=0)), self.length)
        index: Any = window.empty((fields, window.size, length), np.int32)
        mask: Any = np.zeros((window.size, length), np.bool_)
        index[...] = window.absent
        index[:, examples, places] = rows.reshape(fields, -1)
        mask[examples, places] = (self.codes[:, low:high] != ABSENT).any(axis=0)
        return History(index, mask)

    def cells(self) -> list[Cells]:
        """See InChunk."""
        return [Cells(codes, self.offsets) for codes in self.codes]


class History(NamedTuple):
    """The sequences of one group of slots, whose elements are aligned: what a user clicked, and the category of each.

    Each example has its last `length` elements from the first place on, the newest last; L is 16, 64, 256, ..., or `length`.

    Attributes:
        rows: int32[fields, batch, L]; the row of each element, that of zeros where it is NULL or there is none.
        mask: bool[batch, L]; whether an element is there, with a value in some field.
        owner: of an algorithm that is `compact`, int32[batch], where neighbouring examples have histories in common: rows and
            mask are then of groups in the place of examples, and this is the group of each example, ascending; else None.
    """

    rows: jax.Array
    mask: jax.Array
    owner: jax.Array | None = None

    @property
    def arrays(self) -> Mapping[str, Array]:
        """See InBatch."""
        return ARRAYS

    def empty(self, batch: int, groups: int) -> History:
        """See InBatch."""
        fields, _, length = self.rows.shape
        size = batch if self.owner is None else groups
        rows: Any = np.zeros((fields, size, length), np.int32)
        mask: Any = np.zeros((size, length), np.bool_)
        owner: Any = None if self.owner is None else np.zeros(batch, np.int32)
        return History(rows, mask, owner)

    def with_rows(self, rows: jax.Array) -> History:
        """See InBatch."""
        return self._replace(rows=rows)

    def present(self) -> tuple[int, ...]:
        """See InBatch."""
        return self.rows.shape

    def scaled(self, share: jax.Array) -> History:
        """See InBatch."""
        return self

    def by_slot(self, share: jax.Array) -> jax.Array:
        """See InBatch."""
        return share.sum(axis=2).T


class HistoryBlock(SlotBlock[HistorySlots, Any, History]):
    """Histories, a record for the slots of each option."""

    name = "histories"
    arrays = ARRAYS
    words = "sequence"
    rows = True
    aligned = True
    once = True

    def layout(self, slots: Sequence[SlotLike]) -> HistorySlots:
        """See SlotBlock."""
        return HistorySlots(slots[0].group, tuple(slot.name for slot in slots))

    def encoded(
        self, slots: Sequence[SlotLike], columns: Sequence[Any], where: Callable[[int], str]
    ) -> Histories | SearchedSpans:
        """See SlotBlock.

        Raises:
            DataError: fields have different lengths in a row; names the row, and what it has.
        """
        fields: Sequence[Elements | SpanElements] = columns
        first, lengths = slots[0], fields[0].lengths
        for slot, own in zip(slots[1:], fields[1:], strict=True):
            if len(uneven := np.flatnonzero(own.lengths != lengths)):
                row = int(uneven[0])
                raise DataError(
                    f"{first.name} and {slot.name} are fields of one history, so each row must have as many elements in one as "
                    f"in the other; {where(row)} has {lengths[row]} and {own.lengths[row]}. Repair or filter it in the query."
                )
        most = max(slot.length for slot in slots)
        if slots[0].role == SEARCHED:
            spans = spans_of(fields)
            local, codes = tuple(one.local for one in spans), tuple(one.codes for one in spans)
            return SearchedSpans(local, codes, spans[0].begin, spans[0].end, most)
        elements = [own for own in fields if isinstance(own, Elements)]
        offsets = np.concatenate([[0], np.cumsum(elements[0].kept)]).astype(np.int64)
        return Histories(np.stack([own.codes for own in elements]), offsets, most)

    def sizes(self, slots: HistorySlots) -> Mapping[str, int]:
        """See SlotBlock."""
        return {"f": len(slots.slots)}

    def made(self, arrays: Mapping[str, Any]) -> History:
        """See SlotBlock."""
        return History(**arrays)


HISTORIES = HistoryBlock()
