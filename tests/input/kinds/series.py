"""A block and a kind of slot that are not the product's, and an algorithm over them: series of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pyarrow as pa

from xpsql.algorithms.base import Algorithm, Inputs, Layout, Online, Supervised
from xpsql.algorithms.blocks.base import Array, BatchWindow, Cells, Codes, Nodes, Offsets, SlotBlock, SlotLike, gathered
from xpsql.algorithms.linear.scores import linear_scores
from xpsql.algorithms.losses import LOGLOSS
from xpsql.platform.input.kinds.base import BlockKind, Encoding
from xpsql.platform.input.kinds.sequence import last_of
from xpsql.platform.input.kinds.types import is_list, is_number, lengths_of
from xpsql.platform.input.numbers import floats
from xpsql.platform.input.slot import Slot
from xpsql.platform.operators.base import DenseSpec, Operator, TableSpec
from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
from xpsql.platform.options import Part, option

NOTHING = np.empty(0, np.int32)
ARRAYS: Mapping[str, Array] = {"values": Array("BL", np.float32), "mask": Array("BL", np.bool_)}


class SeriesSlot(NamedTuple):
    """The name of a slot."""

    name: str

    @property
    def slots(self) -> tuple[str, ...]:
        return (self.name,)


class SeriesColumn(NamedTuple):
    """The numbers of a chunk, float32[k], and the offsets of its examples."""

    values: np.ndarray[Any, np.dtype[np.float32]]
    offsets: Offsets
    length: int

    def take(self, rows: Any) -> SeriesColumn:
        index, offsets = gathered(self.offsets, rows)
        return SeriesColumn(self.values[index], offsets, self.length)

    def coded(self, codes: Codes) -> SeriesColumn:
        return self

    def features(self, start: int, stop: int) -> tuple[Codes, Codes]:
        return NOTHING, NOTHING

    def cut(self, window: BatchWindow, rows: Codes) -> SeriesValues:
        lengths = np.diff(self.offsets[window.start : window.stop + 1])
        shape = window.size, window.length_of(int(lengths.max(initial=0)), self.length)
        there, values = np.zeros(shape, np.bool_), np.zeros(shape, np.float32)
        there[: len(lengths)] = np.arange(shape[1]) < lengths[:, None]
        own = self.values[self.offsets[window.start] : self.offsets[window.stop]]
        values[there] = np.nan_to_num(own)
        there[there] = ~np.isnan(own)
        return SeriesValues(jnp.asarray(values), jnp.asarray(there))

    def cells(self) -> list[Cells]:
        return [Cells(self.values, self.offsets)]


class SeriesValues(NamedTuple):
    """float32[batch, L], and whether a number is there."""

    values: jax.Array
    mask: jax.Array

    @property
    def arrays(self) -> Mapping[str, Array]:
        return ARRAYS

    def empty(self, batch: int, groups: int) -> SeriesValues:
        shape = batch, self.mask.shape[1]
        return SeriesValues(jnp.zeros(shape), jnp.zeros(shape, jnp.bool_))

    @property
    def rows(self) -> None:
        return None

    def with_rows(self, rows: jax.Array) -> SeriesValues:
        return self

    def present(self) -> tuple[int, ...]:
        return self.mask.shape

    def scaled(self, share: jax.Array) -> SeriesValues:
        return self._replace(values=self.values * share)

    def by_slot(self, share: jax.Array) -> jax.Array:
        return share.sum(axis=1, keepdims=True)


class SeriesBlock(SlotBlock[SeriesSlot, SeriesColumn, SeriesValues]):
    name = "series"
    arrays = ARRAYS
    words = "series"

    def layout(self, slots: Sequence[SlotLike]) -> SeriesSlot:
        return SeriesSlot(slots[0].name)

    def encoded(self, slots: Sequence[SlotLike], columns: Sequence[Any], where: Callable[[int], str]) -> SeriesColumn:
        column: SeriesColumn = columns[0]
        return column

    def sizes(self, slots: SeriesSlot) -> Mapping[str, int]:
        return {}

    def made(self, arrays: Mapping[str, Any]) -> SeriesValues:
        return SeriesValues(**arrays)

    def graph(self, nodes: Nodes, name: str) -> dict[str, str]:
        nothing = nodes.add("IsNaN", name)
        values = nodes.add("Where", nothing, nodes.constant(0.0, np.float32), name)
        return {"values": values, "mask": nodes.add("Not", nothing)}


SERIES_BLOCK = SeriesBlock()


class Series(BlockKind):
    name = "series"
    types = "arrays of numbers"
    role = "series"
    features = False
    raw = True
    block = SERIES_BLOCK

    def accepts(self, type: pa.DataType, role: str) -> bool:
        return role == self.role and is_list(type) and is_number(type.value_type)

    def encode(self, column: pa.ChunkedArray, slot: Slot, encoding: Encoding) -> SeriesColumn:
        array = column.combine_chunks()
        lengths = lengths_of(array)
        values = floats(last_of(array.flatten(), lengths, slot.length))
        offsets = np.concatenate([[0], np.cumsum(np.minimum(lengths, slot.length))]).astype(np.int64)
        return SeriesColumn(values, offsets, slot.length)


SERIES = Series()


@dataclass(frozen=True)
class TrendOptions:
    """Options of trend."""

    loads: tuple[str, ...] = option((), "series of numbers", role="series", length="length")
    length: int = option(10, "numbers of a series that are read, the last ones", minimum=1)


def trend(options: TrendOptions, layout: Layout) -> Algorithm:
    """Learn a logistic regression over the other slots and the mean of each series."""
    directions = DenseSpec("directions", (len(layout.block(SERIES_BLOCK)), 1))

    def scores(parameters: Mapping[str, jax.Array], inputs: Inputs) -> jax.Array:
        series = inputs.block(SERIES_BLOCK)
        means = [one.values.sum(axis=1) / jnp.maximum(one.mask.sum(axis=1), 1) for one in series]
        return linear_scores(parameters["weights"], inputs) + jnp.stack(means, axis=1) @ parameters["directions"]

    def optimizer(table: TableSpec) -> Operator:
        return ftrl(FtrlOptions(), table)

    goal = Online(Supervised(scores, LOGLOSS))
    return Algorithm((TableSpec("weights", 1),), optimizer, goal, dense=(directions,), dense_optimizer=lambda: optax.adam(0.05))


TREND = Part("trend", TrendOptions, trend)
