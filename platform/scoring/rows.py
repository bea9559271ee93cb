"""The rows of a query as a version scores them: with its TRANSFORM beside them, where it has one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..engines.base import Engine, Scan, Staged
from ..input.columns import columns_from
from ..input.kinds.events import MOMENT, USER
from ..input.runs.event_order import REASON, column_of, in_order
from ..input.slots import matched
from ..input.transform import PREFIX
from ..training.clauses.transform import TRANSFORM

if TYPE_CHECKING:
    from ...warehouse.version import Version

LEAST = np.iinfo(np.int64).min


@dataclass(frozen=True)
class ScoredRows:
    """Rows that a version scores.

    Attributes:
        query: with what TRANSFORM computes beside its columns.
        found: how it is read.
        schema: the columns of the query alone.
        inputs: the version's columns -> columns of `found`.
        user: the column of users, where the version reads their events; rows then come user by user, each user's by time.
    """

    query: str
    found: Scan | Staged
    schema: pa.Schema
    inputs: Mapping[str, str]
    user: str | None = None


def rows_of(version: Version, engine: Engine, query: str) -> ScoredRows:
    """Return the rows of a query for a version, in the order in which it reads them.

    Raises:
        StatementError: the query cannot run, lacks a column of the model or of its TRANSFORM, or has one as another kind.
    """
    rows, columns = as_queried(version, engine, query), columns_from(version.manifest)
    user, time = (column_of(columns, role) for role in (USER.role, MOMENT.role))
    if user is None or time is None:
        return rows
    user, time = rows.inputs[user], rows.inputs[time]
    found = Staged(rows.found.schema, REASON, user)
    return replace(rows, query=in_order(rows.query, found.schema, user, time), found=found, user=user)


def as_queried(version: Version, engine: Engine, query: str) -> ScoredRows:
    """Return the rows of a query for a version, in any order; see rows_of."""
    manifest = version.manifest
    columns, transform = columns_from(manifest), TRANSFORM.kept(manifest)
    if transform is None:
        found = engine.scan(query)
        return ScoredRows(query, found, found.schema, matched(columns, found.schema, columns.inputs))
    transform.check(engine.schema(query).names, columns.inputs, f"{manifest.model} v{version.number}")
    query = transform.beside(query, columns.inputs)
    found = engine.scan(query)
    own = pa.schema([field for field in found.schema if not field.name.startswith(PREFIX)])
    made = {f.name.removeprefix(PREFIX): f for f in found.schema if f.name.startswith(PREFIX)}
    seen = [field for field in own if field.name.lower() not in {name.lower() for name in made}]
    read = pa.schema([*seen, *(field.with_name(name) for name, field in made.items())])
    inputs = {
        name: PREFIX + column if column in made else column for name, column in matched(columns, read, columns.inputs).items()
    }
    return ScoredRows(query, found, own, inputs)


def beside(rows: pa.Table, own: NDArray[np.int64], items: pa.Table, theirs: NDArray[np.int64]) -> pa.Table:
    """Return some rows and some items, one beside the other."""
    left, right = rows.take(own), items.take(theirs)
    return pa.table([*left.columns, *right.columns], names=[*left.column_names, *right.column_names])


def write_rows(
    pieces: Iterable[tuple[pa.Table, list[pa.Array], int]], schema: pa.Schema, carried: Sequence[str], path: Path
) -> Iterator[int]:
    """Write rows in a schema, and yield how many as they are written.

    Args:
        pieces: the carried columns, the columns after them, and how many rows of the input they are.
        carried: the names of columns of the input.
    """
    with pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=list(carried)) as writer:
        for rows, columns, count in pieces:
            writer.write_table(pa.table([*rows.columns, *columns], names=schema.names).cast(schema))
            yield count


def joined(parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def as_column(values: NDArray[Any]) -> pa.Array:
    """Return an output as a column: of float64 and int64, which vertices have, NaN and the least are NULL."""
    if values.dtype == np.int64:
        return pa.array(values, mask=values == LEAST)
    if values.dtype == np.float64:
        return pa.array(values, from_pandas=True)
    if values.ndim == 1:
        return pa.array(values.astype(np.float64))
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
