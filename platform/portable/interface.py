"""What a graph takes: an input for each slot of a version, and the arrays of rows to score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.augments.pairs import Pairs, pair_keys, pairs_of
from ...algorithms.base import Algorithm, Online
from ...algorithms.chunk import Chunk
from ..errors import ModelError
from ..input.columns import Columns
from ..input.encode import encode
from ..input.vocabulary import ABSENT
from ..ps.messages import Keys

SCALAR, BAG, HISTORY = "key", "keys", "sequence"
OUTPUTS = "outputs"  # a column of rows: what the network over vectors with ids makes of them
CONTINUOUS, VECTOR, VECTORS = "number", "vector", "vectors"
INSIDE = ("xpsql/", "core/")  # what names within graphs begin with

Arrays = dict[str, NDArray[Any]]


class GraphInput(NamedTuple):
    """An input of a graph.

    Attributes:
        kind: a key for each example, keys, a sequence of them, a number, a vector of `size`, or any number of such vectors.
        group: of sequences, which ones are aligned.
    """

    name: str
    kind: str
    size: int = 0
    group: int = 0


class Interface:
    """The inputs of a version's graphs.

    Args:
        columns: of the version.
        algorithm: of the version.

    Attributes:
        features: inputs of keys: one for each example first, then several, then sequences by their groups.
        numbers: inputs of numbers and vectors, in the order of `Inputs.dense`.
        vector_arrays: inputs of arrays of vectors.
        weighted: the names of inputs with several keys that also have weights, `<name>.weight`.
        pairs: an item and a history that are learned as pairs; None of most.

    Raises:
        ModelError: the algorithm changes rows before it scores them, in a way that no graph has.
    """

    def __init__(self, columns: Columns, algorithm: Algorithm) -> None:
        augments = algorithm.learns.augment if isinstance(algorithm.learns, Online) else ()
        changing = [augment for augment in augments if augment.scores]
        if columns.pairs:
            raise ModelError(
                "The model makes pairs of items beside its slots, which exports for other programs do not have. Serve it by "
                "xpsql serve, or export its weights, FORMAT parquet."
            )
        if len(changing) > 1 or not all(isinstance(augment, Pairs) for augment in changing):
            raise ModelError("The algorithm changes rows before it scores them, which exports for other programs do not know.")
        self.pairs = next(iter(pairs_of(algorithm.learns)), None)
        self.columns = columns
        histories = [
            GraphInput(slot.name, HISTORY, slot.length, number)
            for number, group in enumerate(columns.groups)
            for slot, _ in group
        ]
        scalar = [GraphInput(slot.name, SCALAR) for slot in columns.scalar]
        bags = [GraphInput(slot.name, BAG) for slot in columns.bags]
        self.features: tuple[GraphInput, ...] = (*scalar, *bags, *histories)
        self.weighted = frozenset(slot.name for slot in columns.bags if slot in columns.raw)
        numbers = [GraphInput(slot.name, CONTINUOUS) for slot in columns.continuous]
        self.numbers = (*numbers, *(GraphInput(slot.name, VECTOR, slot.dim) for slot in columns.vectors))
        self.vector_arrays = tuple(GraphInput(slot.name, VECTORS, slot.dim) for slot in columns.vector_arrays)

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
        for one in (*self.features, *self.numbers, *self.vector_arrays):
            if one.kind == BAG:
                others[f"{one.name}.weight"] = f"the weights of {one.name}"
            elif one.kind == HISTORY:
                others[f"{one.name}.mask"] = f"the mask of {one.name}"
        for one in (*self.features, *self.numbers, *self.vector_arrays):
            of = "what is inside it" if one.name.startswith(INSIDE) else others.get(one.name)
            if of is not None:
                raise ModelError(
                    f"The graph of an export calls {of} {one.name!r}, and the model has a slot of that name. Give the column "
                    "another name in the query, and TRAIN again."
                )

    @property
    def groups(self) -> list[list[GraphInput]]:
        """The sequences, by their groups."""
        histories = self.of_kind(HISTORY)
        return [[one for one in histories if one.group == group] for group in range(len(self.columns.groups))]

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
        for group, history in zip(self.columns.groups, chunk.histories, strict=True):
            for (slot, _), codes in zip(group, history.codes, strict=True):
                found[slot.name] = padded(keys[codes], history.offsets, absent)
        at = 0
        for number in self.numbers:
            lines = chunk.dense[at : at + max(number.size, 1)]
            found[number.name] = np.ascontiguousarray(lines.T if number.kind == VECTOR else lines[0])
            at += len(lines)
        for one, array in zip(self.vector_arrays, chunk.vector_arrays, strict=True):
            found[one.name] = padded(array.values, array.offsets, np.nan)
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
