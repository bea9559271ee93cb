"""The contract of slot kinds: which columns they take, and what a column becomes in a chunk.

A kind is a file, with an object of one of the four classes below, and a line in KINDS. The class says where chunks, layouts
and inputs have its values: as a feature of each example (`ScalarKind`), as several (`BagKind`), as numbers (`DenseKind`), or in
a block (`BlockKind`), see `algorithms/blocks`. What negatives, matrices and searches need to know about a kind is an attribute
here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....algorithms.blocks.base import SlotBlock
from ....algorithms.chunk import Bag
from ..slot import Slot
from ..vocabulary import Codes, Vocabulary, keys_of

T = TypeVar("T", bound=np.generic)


class Encoding(NamedTuple):
    """The context in which a slot's column is encoded.

    Attributes:
        vocabulary: takes the keys of the chunk's features and gives codes.
        numbers: slot name -> number, as stored with rows.
        null_features: a NULL of a categorical slot is a feature.
        logarithmic: continuous slots are taken as sign(x) log(1 + |x|).
    """

    vocabulary: Vocabulary
    numbers: Mapping[str, int]
    null_features: bool
    logarithmic: bool

    def add(self, keys: NDArray[np.uint64], slot: Slot) -> int:
        """Add keys of a slot's features and return the first one's code."""
        return self.vocabulary.add(keys, self.numbers[slot.source])


class Kind(ABC):
    """A kind of slot.

    Attributes:
        name: in manifests, DESCRIBE and messages.
        types: the types that it takes, in words for messages; "" where another kind's words say it.
        role: the role that an option gives its columns; "" for columns that no option names.
        features: its values are features with rows: other slots may use them, and vectors of values are compared.
        raw: its numbers are learned as they are, not standardised.
        native: the kind as which native code encodes the rows of requests (`ps/native/request_rows.hpp`); None where only
            `encode` does. It does not pass to subclasses, which may encode in another way.
    """

    name: str
    types: str
    role = ""
    features = True
    raw = False
    native: str | None = None

    def __init_subclass__(cls) -> None:
        cls.native = cls.__dict__.get("native")

    @abstractmethod
    def accepts(self, type: pa.DataType, role: str) -> bool:
        """Return whether columns with this type and role ("" for none) are slots of this kind."""

    def fields(self, type: pa.DataType) -> tuple[str, ...]:
        """Return the fields of a column that are slots of their own; ("",) where the column itself is the slot."""
        return ("",)

    def rewritten(self, now: str, before: str) -> bool:
        """Return whether values have other keys now, with type `now`, than before, with type `before`."""
        return False


class SizedKind(Kind):
    """A kind whose values are vectors, or arrays of them; `Slot.dim` is the number of elements that every vector has."""

    @abstractmethod
    def vectors(self, column: pa.Array) -> tuple[pa.Array, NDArray[np.intp]]:
        """Return the vectors of a column, and the row of each."""

    def size(self, column: pa.Array) -> int:
        """Return how many elements the first vector of a column has; 0 where it has none."""
        lengths = self.vectors(column)[0].value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        return int(lengths[lengths > 0][0]) if lengths.any() else 0


class ScalarKind(Kind):
    """At most one feature per example: a line of `Inputs.scalar`."""

    @abstractmethod
    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding, out: Codes) -> None:
        """Write the codes of a column into out: int32[rows], -1 where a feature is absent."""


class BagKind(Kind):
    """Any number of features per example, each with a weight: a slot of `Inputs.bags`."""

    @abstractmethod
    def values(self, piece: pa.Array) -> tuple[pa.Array, NDArray[np.float32], NDArray[np.int64]]:
        """Return the values of an array, their weights (NaN where there is none), and how many each row has, int64[rows]."""

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding) -> Bag:
        """Return the values of a column; NULL values and those without a finite weight are absent."""
        codes, weights, lengths = [], [], []
        for piece in column.chunks:
            values, value_weights, own = self.values(piece)
            dictionary = values.dictionary_encode()
            first = encoding.add(keys_of(dictionary.dictionary, slot), slot)
            indices = dictionary.indices.fill_null(0).to_numpy(zero_copy_only=False)
            keep = np.isfinite(value_weights)
            if dictionary.null_count:
                keep &= dictionary.is_valid().to_numpy(zero_copy_only=False)
            if not keep.all():
                rows = np.repeat(np.arange(len(own)), own)[keep]
                indices, value_weights, own = indices[keep], value_weights[keep], np.bincount(rows, minlength=len(own))
            codes.append(np.add(indices, np.int32(first), dtype=np.int32, casting="unsafe"))
            weights.append(value_weights)
            lengths.append(own)
        offsets = np.concatenate([[0], np.cumsum(joined(lengths, np.int64))]).astype(np.int64)
        return Bag(joined(codes, np.int32), joined(weights, np.float32), offsets)


def joined(parts: Sequence[NDArray[T]], kind: type[T]) -> NDArray[T]:
    """Return arrays one after the other; one alone as it is, which may be large."""
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, kind), *parts])


class Lines(NamedTuple):
    """What a dense slot becomes.

    Attributes:
        values: float32[rows] for each element, NaN where absent.
        first: the code of the first element's row; the codes of the others follow.
    """

    values: list[NDArray[np.float32]]
    first: int


class DenseKind(Kind):
    """Numbers: columns of `Inputs.dense`. `raw` ones come after standardised ones."""

    features = False

    @abstractmethod
    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding) -> Lines:
        """Return the elements of a column."""


class BlockKind(Kind):
    """Values that chunks, layouts and inputs have in a block of their own.

    Attributes:
        block: which one.
    """

    block: SlotBlock[Any, Any, Any]

    @abstractmethod
    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding) -> Any:
        """Return what `SlotBlock.encoded` takes of a column, the last `slot.length` elements of each row."""
