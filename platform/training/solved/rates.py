"""What operators offer for features before each example, where all examples are learned at once: one pass over them, in
order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...input.batches import Batch
from ...ps.client import LocalClient
from ...ps.keys import NUM_SLICES
from ...ps.messages import Keys, Push, Touched
from ...ps.transport.checks import check_shape, check_vector
from ..prepared import Prepared
from ..row_files.rows import load, new_shard

Floats = NDArray[np.float32]
Columns = dict[str, NDArray[Any]]


class OfferedColumns(NamedTuple):
    """What operators keep and offer for features at the end, by ascending key; empty where they offer nothing.

    Attributes:
        keys: uint64[n].
        columns: name -> float32[n, dim].
    """

    keys: Keys
    columns: Mapping[str, Floats]

    def check(self) -> None:
        """Require columns of one length.

        Raises:
            TrainingError: the lengths differ.
        """
        n = check_vector("keys of what operators keep", self.keys)
        for name, values in self.columns.items():
            check_shape(f"{name} of what operators keep", values, (n, *values.shape[1:]))

    def beside(self, rows: Columns) -> Columns:
        """Return rows, by column and ascending by key, with these columns."""
        if not self.columns:
            return rows
        place = np.searchsorted(self.keys, rows["key"])  # every feature of a version has been counted
        return {**rows, **{name: values[place] for name, values in self.columns.items()}}


NOTHING_KEPT = OfferedColumns(np.empty(0, np.uint64), {})


class Rates:
    """Counts examples as a training batch by batch would, and returns what operators offer for their features before each
    batch.

    Args:
        prepared: the training; its rates continue the rates of the continued version.
    """

    def __init__(self, prepared: Prepared) -> None:
        (programs,) = prepared.recipe.programs
        self._name, self._dims = programs.spec.name, programs.read_dims
        self._shard = new_shard(prepared.recipe, 0, 1, prepared.columns, 0)
        self._shard.watermarks = None
        if prepared.parent is not None:
            load({0: self._shard}, 1, prepared.parent, prepared.columns, {})
        self._client = LocalClient([self._shard])

    def before(self, batch: Batch) -> Mapping[str, Floats]:
        """Return what operators offer for a batch's features, as a pull does, and count the batch."""
        pulled = self._client.pull(batch.keys, batch.size)
        positives = int(np.count_nonzero(batch.label[0, : batch.examples] > 0))
        arrays = batch.keys, batch.slots, batch.counts, batch.clicks
        touched = Touched(*arrays, batch.time_seconds, batch.id, batch.examples, positives)
        none = {self._name: np.zeros_like(pulled.weights[self._name])}
        self._client.push(Push(touched, pulled.updates, none, pulled.weights))
        return pulled.offered

    def kept(self) -> OfferedColumns:
        """Return what is kept of all features."""
        pieces = list(self._shard.holding(self._name).dump(self._name, self._shard.now, range(NUM_SLICES)))
        keys = np.concatenate([keys for keys, _ in pieces])
        columns = {name: np.concatenate([columns[name] for _, columns in pieces]) for name in self._dims if name != "w"}
        return OfferedColumns(keys, columns)


def rates_of(prepared: Prepared, batches: list[Batch]) -> tuple[list[Mapping[str, Floats]], OfferedColumns]:
    """Return what operators offer for features before each batch, and at the end; nothing where they offer nothing."""
    if not prepared.recipe.programs[0].chain.offers:
        return [{}] * len(batches), NOTHING_KEPT
    rates = Rates(prepared)
    return [rates.before(batch) for batch in batches], rates.kept()
