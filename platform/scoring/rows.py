"""The rows of a query as a version scores them: with its TRANSFORM beside them, where it has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ..engines.base import Engine, Scan, Staged
from ..input.columns import columns_from
from ..input.slots import matched
from ..input.transform import PREFIX
from ..training.clauses.transform import TRANSFORM

if TYPE_CHECKING:
    from ...warehouse.version import Version


@dataclass(frozen=True)
class ScoredRows:
    """Rows that a version scores.

    Attributes:
        query: with what TRANSFORM computes beside its columns.
        found: how it is read.
        schema: the columns of the query alone.
        inputs: the version's columns -> columns of `found`.
    """

    query: str
    found: Scan | Staged
    schema: pa.Schema
    inputs: Mapping[str, str]


def rows_of(version: Version, engine: Engine, query: str) -> ScoredRows:
    """Return the rows of a query for a version.

    Raises:
        StatementError: the query cannot run, lacks a column of the model or of its TRANSFORM, or has one as another kind.
    """
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
