"""ML.NEAREST: the features whose vectors point the way of another's."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..display import cell
from ..errors import StatementError, suggestion
from ..input.columns import columns_from
from ..input.slot import Slot
from ..input.vocabulary import keys_of
from ..parts import built_in

if TYPE_CHECKING:
    from ...warehouse.manifest import TableEntry
    from ...warehouse.version import Version

WEIGHTS = "weights"
SCHEMA = pa.schema([("slot", pa.string()), ("key", pa.int64()), ("similarity", pa.float64())])
COLUMNS = ["slot", "key", "w"]
MIN_ID, MAX_ID = -(2**63), 2**63 - 1

Floats = NDArray[np.float32]
Found = tuple[NDArray[np.int64], NDArray[np.float64]]


def nearest(version: Version, name: str, value: Any, k: int) -> pa.Table:
    """Return the k features of a slot whose vectors have the greatest cosine with that of one of its features.

    Args:
        name: of the slot.
        value: of the feature; None for that of NULL.

    Returns:
        slot, key and similarity, the nearest first; the feature itself is left out.

    Raises:
        StatementError: a model without vectors, no such slot, or a feature that the model does not know.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise StatementError(f"ML.NEAREST takes a number of features, 1 or more, got {written(k)}.")
    table = table_of_vectors(version)
    slot = slot_of(version, name)
    key = key_of(slot, value)
    own, number = vector_of(version, table, key, f"{slot.name} = {written(value)}")
    best: Found = (np.empty(0, np.int64), np.empty(0))
    for batch in version.rows(table.name, COLUMNS):
        slots, keys, vectors = arrays(batch, table.dim)
        kept = (slots == number) & (keys != key)
        found = cosine(vectors[kept], own)
        joined = np.concatenate([best[0], keys[kept]]), np.concatenate([best[1], found])
        order = np.argsort(-joined[1], kind="stable")[:k]
        best = joined[0][order], joined[1][order]
    return pa.table([pa.array([slot.source] * len(best[0]), pa.string()), *map(pa.array, best)], schema=SCHEMA)


def table_of_vectors(version: Version) -> TableEntry:
    """Return the first table whose rows are vectors; those of WEIGHTS are a number for each label."""
    for table in version.manifest.tables:
        if table.dim > 1 and table.name != WEIGHTS:
            return table
    algorithm = version.manifest.algorithm.name
    *names, last = [part.name for part in built_in("algorithm") if any(f.name == "dim" for f in fields(part.options))]
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


def key_of(slot: Slot, value: Any) -> np.int64:
    """Return the key of a feature, as SQL shows it."""
    return np.int64(keys_of(values_of(slot, value), slot).view(np.int64)[0])


def values_of(slot: Slot, value: Any) -> pa.Array:
    """Return a value of a slot as its column would have it, or its text, which has the same key."""
    if slot.hashed:
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


def vector_of(version: Version, table: TableEntry, key: np.int64, feature: str) -> tuple[Floats, int]:
    """Return the vector of a feature, and the number of its slot."""
    for batch in version.rows(table.name, COLUMNS):
        slots, keys, vectors = arrays(batch, table.dim)
        if len(at := np.flatnonzero(keys == key)):
            return vectors[at[0]], int(slots[at[0]])
    raise StatementError(
        f"{version.manifest.model} v{version.number} has no vector of {feature}: it has not seen this feature."
    )


def arrays(batch: pa.RecordBatch, dim: int) -> tuple[NDArray[np.uint16], NDArray[np.int64], Floats]:
    """Return slot numbers [n], keys [n] and vectors [n, dim] of stored rows."""
    slots, keys, vectors = batch.columns
    return slots.to_numpy(zero_copy_only=False), keys.to_numpy(), vectors.flatten().to_numpy().reshape(-1, dim)


def cosine(vectors: Floats, own: Floats) -> NDArray[np.float64]:
    """Return the cosine of each vector [n, dim] with one [dim]; 0 where either is zero."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(own)
    found = np.zeros(len(vectors))
    np.divide(vectors @ own, lengths, out=found, where=lengths > 0)
    return found
