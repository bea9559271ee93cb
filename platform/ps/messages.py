"""The messages between clients and shards, and the arrays that they carry.

A client pulls the rows of keys, and pushes what a batch changes in them. Keys are unique within a message; arrays over keys
have their order and length, and those that go into compiled programs are padded to `size`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..forks import FORKS
from .moments import Moments, no_moments

if TYPE_CHECKING:  # the coordinator, and a simulation, do without JAX
    import jax

    Array = jax.Array | NDArray[np.float32]
else:
    Array = NDArray[np.float32]  # as which it travels

Keys = NDArray[np.uint64]
Counts = NDArray[np.uint32]
Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Arrays = Mapping[str, Array]

NO_WEIGHTS: Mapping[str, Floats] = MappingProxyType({})
NO_DENSE: Arrays = MappingProxyType({})
NO_UPDATES: Mapping[str, int] = MappingProxyType({})
NO_OUTPUTS: Mapping[str, OutputGradients] = MappingProxyType({})
NO_MOMENTS = no_moments(0)
OFFERED = "offered"
"""The column of what the chain's operators offer, kept with w for readers."""


class BatchId(NamedTuple):
    """The batch that a push brings: the same after a replay, so that what is random, and what was counted, repeats.

    Attributes:
        epoch: of the driver; a later one shuts out the workers of a driver that died.
        pass_number, split, batch: numbers from 0; a batch's is its place within its split.
        before: examples that the versions which this one continues have learned from.
    """

    epoch: int = 0
    pass_number: int = 0
    split: int = 0
    batch: int = 0
    before: int = 0

    @property
    def draw(self) -> tuple[int, int, int]:
        """What is random in it is drawn from these: pass, split and batch, where a version that continues another numbers its
        splits from another number on, so that it draws anew."""
        return self.pass_number, (self.before + self.split) % 2**32, self.batch


class Touched(NamedTuple):
    """What a push says of its keys beside the gradients; arrays of one length n, keys unique.

    Attributes:
        keys: uint64[n].
        slots: uint16[n], the slot that each key belongs to.
        counts: uint32[n], occurrences in the batch; a label that comes late adds none.
        clicks: uint32[n], occurrences in examples with a positive label.
        time_seconds: newest TIME of the batch, seconds since 1970; 0 without TIME.
        batch: which batch it is.
        examples, positives: of the whole batch, whatever part of its keys this is; labels that come late are no examples.
    """

    keys: Keys
    slots: NDArray[np.uint16]
    counts: Counts
    clicks: Counts
    time_seconds: int
    batch: BatchId = BatchId()
    examples: int = 0
    positives: int = 0

    def only(self, chosen: Mask | NDArray[np.intp]) -> Touched:
        """Return what is said of some of the keys, by a mask or by their places."""
        arrays = {name: getattr(self, name)[chosen] for name in ("keys", "slots", "counts", "clicks")}
        return self._replace(**arrays)


class Pulled(NamedTuple):
    """What a pull returns.

    Attributes:
        weights: table name -> float32[size, dim], zeros past the last key.
        updates: table name -> uint32[n]; of the tables whose chain uses them.
        dense: dense parameter -> its values, float32; never changed in place.
        moments: of all values of continuous slots so far; of the first shard.
        offered: table name -> float32[size, k], what operators offer of each row; of the table that has such operators.
        dense_updates: dense parameter -> the updates that it has had; where operators use them.
        dense_version: another one after each change of `dense` and `dense_updates`, which are empty where they are those that
            the request knows.
    """

    weights: dict[str, Floats]
    updates: dict[str, Counts]
    dense: dict[str, Array]
    moments: Moments
    offered: dict[str, Floats]
    dense_updates: Mapping[str, int] = NO_UPDATES
    dense_version: int = 1


class OutputGradients(NamedTuple):
    """The gradients of what shards made of vectors with ids, for one batch.

    Attributes:
        codes: int32[k], which vectors, ascending.
        gradients: float32[k, dim] of the outputs of their network, summed over examples.
        examples: of the whole batch, those with a weight.
    """

    codes: NDArray[np.int32]
    gradients: Floats
    examples: int


class Push(NamedTuple):
    """One batch's updates for the keys and dense parameters of one shard.

    Attributes:
        touched: keys, slots, counts, clicks and time.
        updates: table name -> uint32[n], the updates as pulled; of the tables whose chain uses them.
        gradients: table name -> float32[size, dim], size >= n, summed over examples.
        weights: table name -> float32[size, dim], as pulled; of the tables whose chain uses them (`Programs.needs_pulled`).
        dense: dense parameter -> gradient in its shape, averaged over examples; other shards' parameters are ignored.
        moments: of the batch's values of continuous slots; shards but the first ignore them.
        worker: who pushes; a gang's pushes are applied in the order of their workers.
        dense_updates: dense parameter -> its updates as pulled; where operators use them.
        dense_weights: dense parameter -> its values as pulled; where operators use them.
        outputs: by the name of vectors whose network shards run, the gradients of its outputs.
    """

    touched: Touched
    updates: Mapping[str, Counts]
    gradients: Mapping[str, Floats]
    weights: Mapping[str, Floats] = NO_WEIGHTS
    dense: Arrays = NO_DENSE
    moments: Moments = NO_MOMENTS
    worker: int = 0
    dense_updates: Mapping[str, int] = NO_UPDATES
    dense_weights: Arrays = NO_DENSE
    outputs: Mapping[str, OutputGradients] = NO_OUTPUTS


def mean_of(pushes: Sequence[Push]) -> Push:
    """Return a push of the mean of dense gradients over the examples of pushes, in their order; values and updates as pulled
    are the first one's: all are of one step."""
    if len(pushes) == 1:
        return pushes[0]
    dense: dict[str, Array] = {}
    for name in dict.fromkeys(name for push in pushes for name in push.dense):
        given = [push for push in pushes if name in push.dense]
        examples = [max(push.touched.examples, 1) for push in given]
        parts = [np.float32(n / sum(examples)) * push.dense[name] for n, push in zip(examples, given, strict=True)]
        dense[name] = functools.reduce(operator.add, parts)
    updates = {name: count for push in reversed(pushes) for name, count in push.dense_updates.items()}
    weights = {name: values for push in reversed(pushes) for name, values in push.dense_weights.items()}
    return pushes[0]._replace(dense=dense, dense_updates=updates, dense_weights=weights)


class Stored(NamedTuple):
    """An array as it is kept: of the parameter `name` its values, column "w", or an array of its optimizer's state."""

    name: str
    column: str
    values: NDArray[Any]


class StoredPiece(NamedTuple):
    """An array as a version keeps it: `Stored` of a parameter, and the first line of it that this is."""

    name: str
    column: str
    values: NDArray[Any]
    first: int


class Description(NamedTuple):
    """What a shard holds.

    Attributes:
        rows: of its largest table.
        memory_bytes: of all tables.
        now: the newest TIME pushed, seconds.
        reports: what its operators counted, such as violations.
        moments: of the continuous slots; the first shard's.
        low, high: the least and the largest weight, where they are watched; infinity and minus infinity elsewhere.
    """

    rows: int
    memory_bytes: int
    now: int
    reports: dict[str, float]
    moments: Moments
    low: float
    high: float


class Read(NamedTuple):
    """What a table answers to a pull.

    Attributes:
        weights: table of the algorithm -> float32[size, dim], as its chain reads them.
        updates: uint32[n]; None where no chain uses them.
        offered: float32[size, k], what operators offer; None where they offer nothing.
        gone: bool[n], keys whose row has ended, for the tables that follow; None where rows do not end.
    """

    weights: dict[str, Floats]
    updates: Counts | None
    offered: Floats | None
    gone: Mask | None


class Gate(NamedTuple):
    """What the first table of a shard decides for the keys of a push, and the others follow.

    Attributes:
        fresh: bool[n], keys that had no row before this push, or one that had ended.
        shut: bool[n], keys that have none after it.
    """

    fresh: Mask
    shut: Mask


class RefusedError(Exception):
    """A row whose update an operator refused, with the order to fail."""

    def __init__(self, key: int, slot: int) -> None:
        self.key = key
        self.slot = slot
        super().__init__(f"key {key} of slot {slot}")


def on_device(arrays: Mapping[str, Floats]) -> dict[str, Array]:
    """Return dense parameters as JAX has them; where there are none, it is not imported.

    Raises:
        StatementError: see Forks.check_jax.
    """
    if not arrays:
        return {}
    FORKS.check_jax()
    import jax.numpy as jnp

    return {name: jnp.asarray(array) for name, array in arrays.items()}
