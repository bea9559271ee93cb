"""What a graph takes: an input for each slot of a version, and the arrays of rows to score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.augments.pairs import Pairs, pair_keys, pairs_of
from ...algorithms.augments.past_fields import PastFields
from ...algorithms.base import Algorithm
from ...algorithms.blocks.base import SlotBlock
from ...algorithms.blocks.events import EVENTS, MOMENT, USER
from ...algorithms.chunk import Chunk
from ..errors import ModelError
from ..input.columns import Columns
from ..input.encode import encode
from ..input.slot import Slot
from ..input.vocabulary import ABSENT
from ..ps.messages import Keys

SCALAR, BAG = "key", "keys"
OUTPUTS = "outputs"  # a column of rows: what the network over vectors with ids makes of them
CONTINUOUS, VECTOR = "number", "vector"
OF_EVENTS = USER, MOMENT
INSIDE = ("xpsql/", "core/")  # what names within graphs begin with

Arrays = dict[str, NDArray[Any]]


class GraphInput(NamedTuple):
    """An input of a graph.

    Attributes:
        kind: a key for each example, keys, a number, a vector of `size`, or as its block says.
        axis: of a block, the name of the axis of an example's elements.
    """

    name: str
    kind: str
    size: int = 0
    axis: str = ""


class BlockInputs(NamedTuple):
    """The inputs of a record of a block.

    Attributes:
        number: of the record among all of the graph.
        slots: as the layout has them.
        inputs: one for each slot.
    """

    block: SlotBlock[Any, Any, Any]
    number: int
    slots: Any
    inputs: tuple[GraphInput, ...]

    def named(self, array: str) -> str:
        """Return the name of one of the block's arrays in the core's graph."""
        return f"{self.block.name}_{self.number}_{array}"


class Interface:
    """The inputs of a version's graphs.

    Args:
        columns: of the version.
        algorithm: of the version.

    Attributes:
        features: inputs of keys: one for each example first, then several, then those of blocks.
        numbers: inputs of numbers and vectors, in the order of `Inputs.dense`.
        blocks: inputs of each record of a block; none where an item and a history are learned as pairs.
        weighted: the names of inputs with several keys that also have weights, `<name>.weight`.
        pairs: an item and a history that are learned as pairs; None of most.

    Raises:
        ModelError: the algorithm changes rows before it scores them, in a way that no graph has.
    """

    def __init__(self, columns: Columns, algorithm: Algorithm) -> None:
        changing = [augment for augment in algorithm.learns.augment if augment.scores]
        if columns.pairs:
            raise ModelError(
                "The model makes pairs of items in addition to its slots, which exports for other programs do not have. "
                "Serve it by xpsql serve, or export its weights, FORMAT parquet."
            )
        if len(changing) > 1 or not all(isinstance(augment, Pairs | PastFields) for augment in changing):
            raise ModelError(
                "The algorithm changes rows before it scores them, which exports for other programs do not support. "
                "Serve it by xpsql serve, or export its weights, FORMAT parquet."
            )
        self.pairs = next(iter(pairs_of(algorithm.learns)), None)
        self.columns = columns
        layouts = (slots for _, records in columns.layout.blocks for slots in records)
        placed = ((block, record) for block, records in columns.blocks for record in records)
        blocks: tuple[BlockInputs, ...] = tuple(
            BlockInputs(block, number, next(layouts), tuple(graph_input(block, number, slot) for slot, _ in record))
            for number, (block, record) in enumerate(placed)
        )
        self.blocks = blocks if self.pairs is None else ()
        sequences = (one for own in blocks if own.block.rows for one in own.inputs)
        self.others = tuple(one for own in blocks if not own.block.rows for one in own.inputs)
        scalar = [GraphInput(slot.name, SCALAR) for slot in columns.scalar]
        bags = [GraphInput(slot.name, BAG) for slot in columns.bags]
        self.features: tuple[GraphInput, ...] = (*scalar, *bags, *sequences)
        self.weighted = frozenset(slot.name for slot in columns.bags if slot in columns.raw)
        numbers = [GraphInput(slot.name, CONTINUOUS) for slot in columns.continuous]
        self.numbers = (*numbers, *(GraphInput(slot.name, VECTOR, slot.dim) for slot in columns.vectors))

    def of_kind(self, kind: str) -> list[GraphInput]:
        """Return the inputs of keys of a kind; where an item and a history are learned as pairs, only inputs of pairs."""
        found = [one for one in self.features if one.kind == kind]
        if self.pairs is None:
            return found
        return [found[self.pairs.history]] if kind == BAG else []

    def check_names(self, outputs: Iterable[str]) -> None:
        """Refuse slots with the name of another input, of an output or of what a graph has inside.

        Raises:
            ModelError: names both.
        """
        others = dict.fromkeys(outputs, "a prediction")
        for one in (*self.features, *self.numbers, *self.others):
            if one.kind == BAG:
                others[f"{one.name}.weight"] = f"the weights of {one.name}"
        for own in self.blocks:
            if own.block.rows:
                others[f"{own.inputs[0].name}.mask"] = f"the mask of {own.inputs[0].name}"
        for one in (*self.features, *self.numbers, *self.others):
            of = "what is inside it" if one.name.startswith(INSIDE) else others.get(one.name)
            if of is not None:
                raise ModelError(
                    f"The graph of an export calls {of} {one.name!r}, and the model has a slot of that name. Give the column "
                    "another name in the query, and TRAIN again."
                )

    @property
    def sequences(self) -> list[BlockInputs]:
        """The records of blocks whose values have rows."""
        return [own for own in self.blocks if own.block.rows]

    def arrays(self, chunk: Chunk, absent: int) -> Arrays:
        """Return the inputs of a graph over keys for encoded rows.

        Args:
            chunk: without labels, as `encode` gives it: numbers as they are.
            absent: the key for absent features.
        """
        keys, found = np.append(chunk.keys.view(np.int64), np.int64(absent)), {}
        for slot, codes in zip(self.columns.scalar, chunk.scalar, strict=False):
            found[slot.name] = keys[codes]  # -1, what is absent, is the last one
        for slot, bag in zip(self.columns.bags, chunk.bags, strict=True):
            found[slot.name] = padded(keys[bag.codes], bag.offsets, absent)
            if slot.name in self.weighted:
                found[f"{slot.name}.weight"] = padded(bag.weights, bag.offsets, 0)
        for events in chunk.block(EVENTS):
            by_kind = {USER: events.users.view(np.int64), MOMENT: events.times}
            found |= {one.name: by_kind[one.kind] for one in self.others if one.kind in by_kind}
        for block, records in self.columns.blocks:
            for record, own in zip(records, chunk.block(block), strict=True) if block is not EVENTS else ():
                for (slot, _), (values, offsets) in zip(record, own.cells(), strict=True):
                    rest = (keys[values], absent) if block.rows else (values, np.nan)
                    found[slot.name] = padded(rest[0], offsets, rest[1])
        at = 0
        for number in self.numbers:
            lines = chunk.dense[at : at + max(number.size, 1)]
            found[number.name] = np.ascontiguousarray(lines.T if number.kind == VECTOR else lines[0])
            at += len(lines)
        return found

    def row_keys(self, arrays: Mapping[str, NDArray[Any]], absent: int) -> Arrays:
        """Return the keys of the rows that a graph over rows takes, by its inputs."""
        if self.pairs is None:
            return {one.name: arrays[one.name] for one in self.features}
        (bag,) = self.of_kind(BAG)
        item = arrays[[one.name for one in self.features if one.kind == SCALAR][self.pairs.item]][:, None]
        had = arrays[bag.name]
        pairs = pair_keys(item.view(np.uint64), had.view(np.uint64)).view(np.int64)
        return {bag.name: np.where((item != had) & (item != absent) & (had != absent), pairs, absent)}


def graph_input(block: SlotBlock[Any, Any, Any], number: int, slot: Slot) -> GraphInput:
    """Return the input of a slot of a block: of events a number that tells users apart, and microseconds since 1970."""
    if block is EVENTS:
        return GraphInput(slot.name, slot.role)
    return GraphInput(slot.name, block.words, slot.dim, f"length_{number}" if block.aligned else f"{slot.name}.length")


def padded(values: NDArray[Any], offsets: NDArray[np.int64], rest: float) -> NDArray[Any]:
    """Return values of rows as [rows, most of a row, at least 1, ...]."""
    lengths = np.diff(offsets)
    out = np.full((len(lengths), max(int(lengths.max(initial=0)), 1), *values.shape[1:]), rest, values.dtype)
    out[np.arange(out.shape[1])[None] < lengths[:, None]] = values
    return out


class ConstantKeys(NamedTuple):
    """Keys of rows that are the same for all examples: the intercept's, the numbers', and the keys of what operators offer."""

    intercept: Keys
    dense: Keys
    offered: Keys

    @classmethod
    def of(cls, chunk: Chunk, columns: Columns) -> ConstantKeys:
        """Return the constant keys of a version, from any rows encoded for it."""
        intercept = chunk.scalar[-1, :1] if columns.intercept else np.empty(0, np.int32)
        return cls(chunk.keys[intercept], chunk.keys[chunk.dense_codes], chunk.keys[chunk.offered_codes])

    @property
    def all(self) -> Keys:
        """All of them, in this order."""
        return np.concatenate(self)


def encoded(table: pa.Table, columns: Columns) -> Chunk:
    """Encode rows, one at least."""
    chunk = encode(table, columns, with_labels=False)
    assert not any((codes < ABSENT).any() for codes in chunk.scalar)
    return chunk
