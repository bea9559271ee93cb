"""Arrays of vectors: any number of vectors for each example, in order, without rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .base import Array, BatchWindow, Cells, Codes, Nodes, Offsets, SlotBlock, SlotLike, gathered

if TYPE_CHECKING:
    import jax

NOTHING = np.empty(0, np.int32)
ARRAYS: Mapping[str, Array] = {"values": Array("BLd", np.float32), "mask": Array("BL", np.bool_)}


class ArraySlot(NamedTuple):
    """A slot of arrays of vectors: its name, the option that names it, and the elements of each vector."""

    name: str
    option: str
    dim: int

    @property
    def slots(self) -> tuple[str, ...]:
        """See InLayout."""
        return (self.name,)


class VectorArrays(NamedTuple):
    """The vectors of one slot in a chunk, any number for each example, the oldest first.

    Attributes:
        values: float32[k, dim]; NaN in all of a vector that is NULL.
        offsets: int64[rows + 1]; the vectors of example i are offsets[i]:offsets[i + 1].
        length: the most vectors that an example has.
    """

    values: NDArray[np.float32]
    offsets: Offsets
    length: int

    def take(self, rows: NDArray[np.intp]) -> VectorArrays:
        """See InChunk."""
        index, offsets = gathered(self.offsets, rows)
        return VectorArrays(self.values[index], offsets, self.length)

    def coded(self, codes: Codes) -> VectorArrays:
        """See InChunk."""
        return self

    def features(self, start: int, stop: int) -> tuple[Codes, Codes]:
        """See InChunk."""
        return NOTHING, NOTHING

    def cut(self, window: BatchWindow, rows: Codes) -> Vectors:
        """See InChunk; padded examples have no vectors."""
        start, stop = window.start, window.stop
        lengths, low, high = np.diff(self.offsets[start : stop + 1]), self.offsets[start], self.offsets[stop]
        length = window.length_of(int(lengths.max(initial=0)), self.length)
        there = np.zeros((window.size, length), np.bool_)
        there[: stop - start] = np.arange(length) < lengths[:, None]
        values: Any = window.empty((window.size, length, self.values.shape[1]), np.float32)
        values[...] = 0
        own = self.values[low:high]
        finite = np.isfinite(own)
        values[there] = np.where(finite, own, np.float32(0))
        there[there] = finite.any(axis=1)
        return Vectors(values, there)  # type: ignore[arg-type]

    def cells(self) -> list[Cells]:
        """See InChunk."""
        return [Cells(self.values, self.offsets)]


class Vectors(NamedTuple):
    """The vectors of one slot, of each example the last `length`, from the first place on; L is 16, 64, 256, ..., or `length`.

    Attributes:
        values: float32[batch, L, dim]; zeros where there is none, and in place of what is no finite number.
        mask: bool[batch, L]; whether a vector is there.
    """

    values: jax.Array
    mask: jax.Array

    @property
    def arrays(self) -> Mapping[str, Array]:
        """See InBatch."""
        return ARRAYS

    def empty(self, batch: int, groups: int) -> Vectors:
        """See InBatch."""
        _, length, dim = self.values.shape
        nothing: Any = np.zeros((batch, length, dim), np.float32), np.zeros((batch, length), np.bool_)
        return Vectors(*nothing)

    @property
    def rows(self) -> None:
        """See InBatch."""
        return None

    def with_rows(self, rows: jax.Array) -> Vectors:
        """See InBatch."""
        return self

    def present(self) -> tuple[int, ...]:
        """See InBatch."""
        return self.mask.shape

    def scaled(self, share: jax.Array) -> Vectors:
        """See InBatch."""
        return self._replace(values=self.values * share[:, :, None])

    def by_slot(self, share: jax.Array) -> jax.Array:
        """See InBatch."""
        return share.sum(axis=1, keepdims=True)


class VectorArrayBlock(SlotBlock[ArraySlot, VectorArrays, Vectors]):
    """Arrays of vectors, a record for each slot."""

    name = "vector_arrays"
    arrays = ARRAYS
    words = "vectors"

    def layout(self, slots: Sequence[SlotLike]) -> ArraySlot:
        """See SlotBlock."""
        (slot,) = slots
        return ArraySlot(slot.name, slot.group, slot.dim)

    def encoded(self, slots: Sequence[SlotLike], columns: Sequence[Any], where: Callable[[int], str]) -> VectorArrays:
        """See SlotBlock."""
        (column,) = columns
        assert isinstance(column, VectorArrays)
        return column

    def sizes(self, slots: ArraySlot) -> Mapping[str, int]:
        """See SlotBlock."""
        return {"d": slots.dim}

    def made(self, arrays: Mapping[str, Any]) -> Vectors:
        """See SlotBlock."""
        return Vectors(**arrays)

    def graph(self, nodes: Nodes, name: str) -> dict[str, str]:
        """See SlotBlock: zeros for vectors that are not there, and which are."""
        nothing = nodes.add("Or", nodes.add("IsNaN", name), nodes.add("IsInf", name))
        there = nodes.cast(nodes.add("Not", nothing), "INT8")
        return {
            "values": nodes.add("Where", nothing, nodes.constant(0.0, np.float32), name),
            "mask": nodes.cast(nodes.add("ReduceMax", there, nodes.constant([2]), keepdims=0), "BOOL"),
        }


VECTOR_ARRAYS = VectorArrayBlock()
