"""Writing vectors with ids: the rows of a query, an id and a vector each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ....warehouse.checksums import NUM_SLICES, seal
from ....warehouse.durable import creating
from ...errors import DataError, StatementError, Subject
from ...spark_types import is_category, spark_type
from ..kinds.types import is_list, is_number
from ..numbers import floats
from ..slot import Slot
from ..vocabulary import keys_of
from .table import VALUES, Side, keys_file, places_file

VECTORS = Subject("VECTORS")
BLOCK_BYTES = 1 << 26


def check_schema(side: Side, schema: pa.Schema) -> None:
    """Refuse a query that returns anything but ids and vectors.

    Raises:
        StatementError: says what it returns.
    """
    kinds = [field.type for field in schema]
    right = len(kinds) == 2 and is_category(kinds[0]) and is_list(kinds[1]) and is_number(kinds[1].value_type)
    if not right:
        came = ", ".join(f"{field.name} {spark_type(field.type)}" for field in schema)
        raise StatementError(
            f"{VECTORS} {side.name} expects a query of two columns, an id and a vector, as image_id STRING, vector "
            f"ARRAY<FLOAT>; it returns {came}.",
            subject=VECTORS,
        )


def write_side(side: Side, reader: Iterable[pa.RecordBatch], sources: Mapping[int, Slot], folder: Path) -> Side:
    """Write vectors; durable when this returns.

    Args:
        side: has its elements where an earlier version has such vectors.
        reader: of ids and vectors, as `check_schema` has them.
        sources: by number, the slots whose values are ids, each with separate rows.

    Raises:
        DataError: no vectors, a vector of another length or with a number that is not finite, or an id that is NULL or occurs
            twice.
    """
    ids: list[pa.Array] = []
    keys: dict[int, list[NDArray[np.uint64]]] = {number: [] for number in sources}
    with creating(folder / VALUES), (folder / VALUES).open("wb") as file:
        for batch in reader:
            own, vectors = there(side, batch)
            side = replace(side, elements=side.elements or length_of(vectors))
            file.write(checked(side, own, vectors).tobytes())
            ids.append(own)
            for number, slot in sources.items():
                keys[number].append(keys_of(own, slot))
    if not (count := sum(map(len, ids))):
        raise DataError(f"{VECTORS} {side.name} has no vectors: its query returns no rows, or NULL in all. Look at its tables.")
    row_bytes = 4 * side.elements
    sealed(folder / VALUES, count, row_bytes * max(1, BLOCK_BYTES // row_bytes))
    for number, parts in keys.items():
        found = np.concatenate(parts)
        order = np.argsort(found, kind="stable").astype(np.int32)
        ascending = found[order]
        if len(twice := np.flatnonzero(ascending[1:] == ascending[:-1])):
            value = pa.chunked_array(ids)[int(order[twice[0]])].as_py()
            raise DataError(f"{VECTORS} {side.name} has two vectors for {value!r}. Leave one in its query.")
        for name, array in ((keys_file(number), ascending), (places_file(number), order)):
            with creating(folder / name):
                (folder / name).write_bytes(array.tobytes())
            sealed(folder / name, count, BLOCK_BYTES)
    return replace(side, folder=str(folder.absolute()))


def there(side: Side, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Return the ids and vectors of a batch, without NULL vectors.

    Raises:
        DataError: an id is NULL.
    """
    ids, vectors = batch.columns
    if vectors.null_count:
        valid = vectors.is_valid()
        ids, vectors = ids.filter(valid), vectors.filter(valid)
    if ids.null_count:
        raise DataError(f"{VECTORS} {side.name} has a vector whose id is NULL. Filter such rows out in its query.")
    return ids, vectors


def length_of(vectors: pa.Array) -> int:
    """Return how many elements the first vector has, 0 where there is none."""
    return len(vectors[0]) if len(vectors) else 0


def checked(side: Side, ids: pa.Array, vectors: pa.Array) -> NDArray[np.float32]:
    """Return vectors as float32[n, elements].

    Raises:
        DataError: one has another length than the first, or an element that is no finite number; names its id.
    """
    lengths = vectors.value_lengths().to_numpy(zero_copy_only=False)
    if len(empty := np.flatnonzero(lengths == 0)):
        value = ids[int(empty[0])].as_py()
        raise DataError(f"{VECTORS} {side.name} has a vector without elements, that of {value!r}. Filter it out in the query.")
    if len(wrong := np.flatnonzero(lengths != side.elements)):
        row = int(wrong[0])
        raise DataError(
            f"The vectors of {VECTORS} {side.name} have {side.elements} elements; that of {ids[row].as_py()!r} has "
            f"{lengths[row]}. Repair it, or filter it out in the query."
        )
    values = floats(vectors.flatten()).reshape(len(vectors), -1 if len(vectors) else side.elements)
    if len(odd := np.flatnonzero(np.logical_not(np.isfinite(values).all(axis=1)))):
        row = int(odd[0])
        raise DataError(
            f"{VECTORS} {side.name} must have finite numbers; the vector of {ids[row].as_py()!r} has NULL, NaN or what is too "
            "large. Repair it, or filter it out in the query."
        )
    return values


def sealed(path: Path, rows: int, block: int) -> None:
    """Keep the checksums of a file's blocks beside it."""
    seal(path, rows, [(0, NUM_SLICES, block)] * ((path.stat().st_size - 1) // block))
