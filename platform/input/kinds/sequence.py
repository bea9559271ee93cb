"""Sequence slots: arrays of categories in order, such as a user's clicks, the newest last."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....algorithms.blocks.histories import HISTORIES, Elements
from ....algorithms.blocks.searched import SEARCHED, SpanElements
from ...spark_types import is_category
from ..slot import Slot
from ..vocabulary import ABSENT, keys_of
from .base import BlockKind, Encoding
from .spans import is_spans, of_spans, searched_spans
from .types import is_list, lengths_of


class Sequence(BlockKind):
    """The last `length` elements of an array, in order; a NULL element is absent and keeps its place, a NULL array has none.

    The column is named by an option with the role `sequence`. An array of structs is as many slots as the structs have fields,
    `column.field`, and a NULL struct is NULL in all of them.
    """

    name = "sequence"
    types = "arrays of categories, or of structs of categories"
    role = "sequence"
    block = HISTORIES

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return (
            role in (self.role, SEARCHED)
            and is_list(type)
            and all(map(is_category, element_types(type)))
            and bool(element_types(type))
        )

    def fields(self, type: pa.DataType) -> tuple[str, ...]:
        element = type.value_type
        return tuple(element.field(i).name for i in range(element.num_fields)) if pa.types.is_struct(element) else ("",)

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding) -> Elements | SpanElements:
        if slot.role == SEARCHED and column.num_chunks == 1 and is_spans(column.type):
            return searched_spans(column.chunk(0), slot, encoding)
        codes, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for piece in column.chunks:
            if is_spans(piece.type):
                found = of_spans(piece, slot, encoding)
                codes.append(found.codes)
                lengths.append(found.lengths)
                continue
            long = lengths_of(piece)
            values = last_of(elements_of(piece, slot.field), long, slot.length)
            dictionary = values.dictionary_encode()
            first = encoding.add(keys_of(dictionary.dictionary, slot), slot)
            indices = dictionary.indices.fill_null(0).to_numpy(zero_copy_only=False)
            codes.append(np.where(values.is_valid().to_numpy(zero_copy_only=False), indices + first, ABSENT).astype(np.int32))
            lengths.append(long)
        own = np.concatenate(lengths)
        return Elements(np.concatenate(codes), np.minimum(own, slot.length), own)


def element_types(type: pa.DataType) -> list[pa.DataType]:
    """Return the types of an array's elements; of structs the types of their fields."""
    element = type.value_type
    return [element.field(i).type for i in range(element.num_fields)] if pa.types.is_struct(element) else [element]


def elements_of(piece: pa.Array, field: str) -> pa.Array:
    """Return the elements of all rows of an array, one after the other, or one field of them."""
    values = piece.flatten()
    return values.flatten()[values.type.get_field_index(field)] if field else values


def last_of(values: pa.Array, lengths: NDArray[np.int64], most: int) -> pa.Array:
    """Return the last `most` elements of each row."""
    if not len(lengths) or lengths.max() <= most:
        return values
    ends = np.cumsum(lengths)
    kept = np.repeat(ends, lengths) - np.arange(ends[-1]) <= most
    return values.filter(pa.array(kept))


SEQUENCE = Sequence()
