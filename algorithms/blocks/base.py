"""The contract of blocks: a block is a place that layouts, chunks, batches and inputs have for the values of some slots.

A block is a file with three records and an object of `SlotBlock`, which kinds of slots name as theirs: what a layout says of
slots (`InLayout`), what a chunk has of them (`InChunk`), and what a batch and the inputs of an algorithm have (`InBatch`). Each
of these has a record for each slot, or for the slots of an option side by side where those are aligned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...platform.errors import StatementError, Subject

if TYPE_CHECKING:
    import jax

Codes = NDArray[np.int32]
Offsets = NDArray[np.int64]
ABSENT = -1
"""The code of what is not there."""


class SlotLike(Protocol):
    """A slot as blocks see it: its name, the option that names it and the role that it gives, the elements that are read, and
    those of a vector."""

    @property
    def name(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def length(self) -> int: ...
    @property
    def role(self) -> str: ...
    @property
    def dim(self) -> int: ...


class Array(NamedTuple):
    """An array of a batch.

    Attributes:
        axes: a letter for each: `B` examples, `L` elements of an example, others as `SlotBlock.sizes` names them.
        dtype: of its elements; of int32 they are rows.
    """

    axes: str
    dtype: Any


class Cells(NamedTuple):
    """The values of one slot in a chunk: int32[k] codes, ABSENT where there is none, or float32[k, ...] numbers, NaN there;
    those of example i are offsets[i]:offsets[i + 1]."""

    values: NDArray[Any]
    offsets: Offsets


class BatchWindow(NamedTuple):
    """The examples of a chunk that become a batch.

    Attributes:
        start, stop: the first one, and the one after the last.
        size: of the batch, with padding.
        absent: the row of what is not there.
        length_of: (most elements of an example, most of any) -> elements with padding.
        empty: makes an array, (shape, dtype), whose values are any.
    """

    start: int
    stop: int
    size: int
    absent: int
    length_of: Callable[[int, int], int]
    empty: Callable[[tuple[int, ...], Any], NDArray[Any]]


class InLayout(Protocol):
    """What a layout says of slots: their names first, in the order in which batches have them."""

    @property
    def slots(self) -> tuple[str, ...]: ...


class InChunk(Protocol):
    """What a chunk has of slots."""

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return the same of some rows."""

    def coded(self, codes: Codes) -> Self:
        """Return the same with other codes: codes[code] for each, the last of them ABSENT."""

    def features(self, start: int, stop: int) -> tuple[Codes, Codes]:
        """Return the codes of examples start:stop in the order in which `cut` takes their rows, and the example of each,
        counted from `start`."""

    def cut(self, window: BatchWindow, rows: Codes) -> Any:
        """Return what a batch has, see InBatch.

        Args:
            rows: of the codes that `features` gives.
        """

    def cells(self) -> Sequence[Cells]:
        """Return the values of each slot."""


class InBatch(Protocol):
    """What a batch has of slots, as NumPy has it, and the inputs of an algorithm, as JAX has it: a NamedTuple of arrays."""

    @property
    def arrays(self) -> Mapping[str, Array]:
        """The arrays by the names of fields, as its block has them."""

    def empty(self, batch: int, groups: int) -> Self:
        """Return the same of so many examples, and groups where it is of groups, without anything."""

    @property
    def rows(self) -> jax.Array | None:
        """The rows that it looks up; None where its values have no rows."""

    def with_rows(self, rows: jax.Array) -> Self:
        """Return the same with other rows, in the same shape."""

    def present(self) -> tuple[int, ...]:
        """Return the shape of what `scaled` and `by_slot` take."""

    def scaled(self, share: jax.Array) -> Self:
        """Return the same with values, not those of rows, multiplied."""

    def by_slot(self, share: jax.Array) -> jax.Array:
        """Return the sums over the elements of each slot of an example, float32[batch, slots]."""


class Nodes(Protocol):
    """What adds nodes to a graph of ONNX; see `platform.portable.graph.GraphBuilder`."""

    def add(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str: ...
    def constant(self, values: Any, dtype: Any = np.int64) -> str: ...
    def cast(self, value: str, kind: str) -> str: ...


L = TypeVar("L", bound=InLayout)
C = TypeVar("C", bound=InChunk)
B = TypeVar("B", bound=InBatch)


class SlotBlock(ABC, Generic[L, C, B]):
    """A place for the values of slots.

    Attributes:
        name: of its records in chunks, batches and inputs.
        arrays: the arrays of a batch by the names of the record's fields.
        words: what an export for other programs calls an input of such a slot.
        rows: values are features, which have rows; its first array has them, and the array `mask` says where one is there.
        aligned: the slots of one option have one record; single: all its slots have one.
        once: what a table stores once for several rows may be encoded once, and neighbouring examples may have it in common.
    """

    name: str
    arrays: Mapping[str, Array]
    words: str
    rows = False
    aligned = False
    single = False
    once = False

    @abstractmethod
    def layout(self, slots: Sequence[SlotLike]) -> L:
        """Return what a layout says of the slots of a record."""

    @abstractmethod
    def encoded(self, slots: Sequence[SlotLike], columns: Sequence[Any], where: Callable[[int], str]) -> C:
        """Return what a chunk has of the slots of a record.

        Args:
            columns: what their kinds made of their columns.
            where: names a row, for messages.

        Raises:
            DataError: the columns do not fit together.
        """

    @abstractmethod
    def sizes(self, slots: L) -> Mapping[str, int]:
        """Return the sizes of the axes that are neither examples nor elements."""

    @abstractmethod
    def made(self, arrays: Mapping[str, Any]) -> B:
        """Return what inputs have, of arrays by name."""

    def graph(self, nodes: Nodes, name: str) -> dict[str, str]:
        """Add what makes the arrays of an input of an export, a slot whose values have no rows, and return them by name.

        Raises:
            StatementError: the block does not say how.
        """
        raise StatementError(
            f"FORMAT onnx has no inputs for {name}: the block {self.name} does not define `graph`. Score the model by xpsql "
            "serve or ML.PREDICT, or write its rows with FORMAT parquet.",
            subject=Subject("FORMAT"),
        )


class SlotsOf(NamedTuple):
    """The slots of a block in a layout."""

    block: SlotBlock[Any, Any, Any]
    slots: tuple[Any, ...]


Blocks = dict[str, tuple[Any, ...]]
"""The records of a chunk, a batch or inputs, by the names of their blocks; a block without slots has none."""
NO_BLOCKS: Blocks = {}


def replaced(blocks: Blocks, block: SlotBlock[Any, Any, Any], records: Iterable[Any]) -> Blocks:
    """Return blocks with other records in one of them."""
    found = {**blocks, block.name: tuple(records)}
    return {name: own for name, own in found.items() if own}


def every(blocks: Blocks, change: Callable[[Any], Any]) -> Blocks:
    """Return blocks with each record changed."""
    return {name: tuple(map(change, records)) for name, records in blocks.items()}


def beside(blocks: Blocks, others: Blocks) -> list[tuple[Any, Any]]:
    """Return the records of blocks, one block after the other, each with what others have in its place."""
    return [pair for name, records in blocks.items() for pair in zip(records, others[name], strict=True)]


def each(blocks: Blocks, others: Blocks, change: Callable[[Any, Any], Any]) -> Blocks:
    """Return blocks with each record changed by what others have in its place."""
    return {name: tuple(map(change, records, others[name])) for name, records in blocks.items()}


def along(record: Any, axis: str, change: Callable[[Any, int], Any]) -> Any:
    """Return a record of inputs with each array changed that has an axis: (array, the axis's place) -> array."""
    own = {name: axes.index(axis) for name, (axes, _) in record.arrays.items() if axis in axes}
    return record._replace(**{name: change(getattr(record, name), place) for name, place in own.items()})


def gathered(offsets: Offsets, rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], Offsets]:
    """Return where the values of some rows stand, and the offsets of these rows."""
    lengths, starts = np.diff(offsets)[rows], offsets[rows]
    own = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.arange(own[-1]) - np.repeat(own[:-1] - starts, lengths), own
