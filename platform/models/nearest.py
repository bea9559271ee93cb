"""ML.NEAREST: the features whose vectors are nearest by cosine to another feature's, or to each of a query's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..display import cell
from ..errors import StatementError, suggestion
from ..input.columns import columns_from
from ..input.slot import Slot
from ..input.vocabulary import keys_of, shown_keys
from ..parts import ALGORITHM
from ..scoring.top_k import Best
from ..spark_types import type_words
from .vertices import refuse_vertices

if TYPE_CHECKING:
    from ...warehouse.entries import TableEntry
    from ...warehouse.version import Version

WEIGHTS = "weights"
SCHEMA = pa.schema([("slot", pa.string()), ("key", pa.int64()), ("similarity", pa.float64())])
COLUMNS = ["slot", "key", "w"]
CELLS = 1 << 20  # similarities that are computed at once
MIN_ID, MAX_ID = -(2**63), 2**63 - 1

Floats = NDArray[np.float32]


def nearest_to(version: Version, name: str, value: Any, k: Any) -> pa.Table:
    """Return the k features of a slot whose vectors have the greatest cosine with the vector of one of its features.

    Args:
        name: of the slot.
        value: of the feature; None for the feature of NULL.

    Returns:
        slot, key and similarity, the nearest first; the feature itself is left out.

    Raises:
        StatementError: a model without vectors, no such slot, or a feature that the model does not know.
    """
    near = Nearest(version, name, k)
    found = near.of(keys_of(values_of(near.slot, value), near.slot).view(np.int64))
    if not found.known.all():
        raise StatementError(
            f"{version.manifest.model} v{version.number} has no vector of {near.slot.name} = {written(value)}: it has not seen "
            "this feature."
        )
    return found.neighbours


def nearest_to_rows(version: Version, name: str, rows: pa.Table, k: Any) -> pa.Table:
    """Return the same for each row of a query, whose first column has the values: the row's columns, slot, key and similarity.
    A row whose feature the model does not know has no neighbours.

    Raises:
        StatementError: see nearest_to, or the first column cannot be values of the slot, or one is named as what is added.
    """
    near = Nearest(version, name, k)
    if clash := [column for column in rows.column_names if column.lower() in SCHEMA.names]:
        raise StatementError(f"The result would have two columns {clash[0]}; rename the query's column with AS.")
    own = column_of(near.slot, rows.schema.field(0), rows.column(0).combine_chunks())
    found = near.of(keys_of(own, near.slot).view(np.int64))
    columns = rows.take(found.owners)
    return pa.table([*columns.columns, *found.neighbours.columns], schema=pa.schema([*rows.schema, *SCHEMA]))


class NearestFeatures(NamedTuple):
    """What is near some features.

    Attributes:
        known: bool[features], whether the model has a vector of each.
        owners: int64[n], whose neighbour each is.
        neighbours: slot, key and similarity of each, the nearest of a feature first.
    """

    known: NDArray[np.bool_]
    owners: NDArray[np.int64]
    neighbours: pa.Table


class Nearest:
    """The features of a slot, to be compared with some of them.

    Attributes:
        slot: the slot.

    Raises:
        StatementError: k is not a number of features, the model has no vectors, or no such slot.
    """

    def __init__(self, version: Version, name: str, k: Any) -> None:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise StatementError(f"ML.NEAREST takes a number of features, 1 or more, got {written(k)}.")
        self._version, self._k = version, k
        self._table = table_of_vectors(version)
        self.slot = slot_of(version, name)

    def of(self, asked: NDArray[np.int64]) -> NearestFeatures:
        """Return the nearest features of some keys, by two passes over the rows: the first finds their own vectors."""
        wanted, which = np.unique(asked, return_inverse=True)
        own, numbers = np.zeros((len(wanted), self._table.dim), np.float32), np.full(len(wanted), -1)
        rows = 0
        for slots, keys, vectors in self._rows():
            at = np.minimum(np.searchsorted(wanted, keys), max(len(wanted) - 1, 0))
            mine = wanted[at] == keys if len(wanted) else np.zeros(len(keys), bool)
            own[at[mine]], numbers[at[mine]] = vectors[mine], slots[mine]
            rows += len(keys)
        known = numbers >= 0
        wanted, own = wanted[known], unit(own[known])
        best, all_keys, start = Best(len(wanted), min(self._k, max(1, rows))), [], 0
        step = max(1, CELLS // max(len(wanted), 1))
        for slots, keys, vectors in self._rows() if len(wanted) else ():
            kept = slots == numbers[known][0]
            keys, vectors = keys[kept], unit(vectors[kept])
            for first in range(0, len(keys), step):
                of_block = keys[first : first + step]
                scores = own @ vectors[first : first + step].T
                scores[wanted[:, None] == of_block] = -np.inf
                best.add(scores, start + first)
            all_keys.append(keys)
            start += len(keys)
        return self._neighbours(best, np.concatenate([np.empty(0, np.int64), *all_keys]), known, which)

    def _neighbours(
        self, best: Best, keys: NDArray[np.int64], known: NDArray[np.bool_], which: NDArray[np.intp]
    ) -> NearestFeatures:
        """Expand the results of distinct features to every requested feature."""
        place = np.cumsum(known) - 1
        asked = np.flatnonzero(known[which])
        scores, places = best.scores[place[which[asked]]], best.places[place[which[asked]]]
        there = scores > -np.inf
        owners = asked[np.nonzero(there)[0]]
        found = shown_keys(keys[places[there]], self.slot)
        columns = [self.slot.source] * len(owners), found, scores[there].astype(np.float64)
        return NearestFeatures(known[which], owners, pa.table(list(map(pa.array, columns)), names=SCHEMA.names).cast(SCHEMA))

    def _rows(self) -> Iterator[tuple[NDArray[np.uint16], NDArray[np.int64], Floats]]:
        """Yield slot numbers [n], keys [n] and vectors [n, dim] of stored rows."""
        for batch in self._version.rows(self._table.name, COLUMNS):
            slots, keys, vectors = batch.columns
            floats = vectors.flatten().to_numpy().reshape(-1, self._table.dim)
            yield slots.to_numpy(zero_copy_only=False), keys.to_numpy(), floats


def table_of_vectors(version: Version) -> TableEntry:
    """Return the first table whose rows are vectors; rows of WEIGHTS have a number for each label."""
    refuse_vertices(version.manifest, "ML.NEAREST compares vectors")
    for table in version.manifest.tables:
        if table.dim > 1 and table.name != WEIGHTS:
            return table
    algorithm = version.manifest.algorithm.name
    *names, last = [part.name for part in ALGORITHM.built_in() if any(f.name == "dim" for f in fields(part.options))]
    listed = f"{', '.join(names)} or {last}"
    raise StatementError(f"ML.NEAREST compares vectors, and {algorithm} has none. Use a model of {listed}.")


def slot_of(version: Version, name: str) -> Slot:
    """Return a slot of features by its name, without case."""
    slots = columns_from(version.manifest).features
    found = next((slot for slot in slots if slot.name.lower() == name.lower()), None)
    if found is None:
        raise StatementError(
            f"{version.manifest.model} has no slot {name!r} of categories.{suggestion(name, [slot.name for slot in slots])}"
        )
    return found


def values_of(slot: Slot, value: Any) -> pa.Array:
    """Return a value of a slot as its column would have it, or its text, which has the same key."""
    if slot.hashed or slot.raw:
        if isinstance(value, bool) or not (isinstance(value, int) and MIN_ID <= value <= MAX_ID):
            raise StatementError(
                f"The slot {slot.name} holds ready-made ids, which are integers of 64 bits; got {written(value)}."
            )
        return pa.array([value], pa.int64())
    if isinstance(value, bool):
        return pa.array([value])
    if not isinstance(value, str | int | None):
        raise StatementError(
            f"ML.NEAREST takes a value of {slot.name} as a string, a whole number, TRUE, FALSE or NULL; got {written(value)}."
        )
    return pa.array([None if value is None else str(value)], pa.string())


def written(value: Any) -> str:
    """Return a value as a statement has it."""
    return cell(value).upper() if value is None or isinstance(value, bool) else repr(value)


def column_of(slot: Slot, field: pa.Field, values: pa.Array) -> pa.Array:
    """Return the values of a column of a query as features of a slot.

    Raises:
        StatementError: its type cannot be that of the slot.
    """
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    ids = slot.hashed or slot.raw
    good = pa.types.is_integer(kind) or (not ids and (pa.types.is_boolean(kind) or pa.types.is_string(kind)))
    if not good or (ids and values.null_count):
        wanted = "BIGINT without NULL, as it holds ready-made ids" if ids else "STRING, a whole number or BOOLEAN"
        raise StatementError(
            f"ML.NEAREST takes values of {slot.name} from the first column of the query, {wanted}; {field.name} is "
            f"{type_words(field.type)}. Use CAST."
        )
    return values.cast(kind)


def unit(vectors: Floats) -> Floats:
    """Return vectors of length 1; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Floats = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return found
