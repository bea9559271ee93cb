"""A new version of a model without some of its rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ...warehouse.draft import Draft
from ...warehouse.durable import storing
from ...warehouse.entries import OriginEntry, TableEntry
from ...warehouse.folders import newest_interrupted
from ...warehouse.manifest import DELTA, Manifest
from ...warehouse.models import Models
from ...warehouse.rows import RowWriter, rows_schema
from ...warehouse.version import Version
from ..engines.base import internal_name
from ..errors import ModelError, StatementError
from ..spark_types import spark_type
from .weights import Relation, weights

if TYPE_CHECKING:
    from ..engines.base import Engine

STORED = "xpsql_stored_"


def shrink(models: Models, engine: Engine, name: str, condition: str, statement: str) -> tuple[Manifest, Manifest]:
    """Make a version from the one served without the rows for which a condition on the columns of ML.WEIGHTS is true.

    The kept rows keep their optimizer state, so the version can be continued. It has no metrics: it learned from nothing.

    Returns:
        The manifests of the old and the new version.

    Raises:
        StatementError: the condition cannot be evaluated, with the position in it; no version is made.
        ModelError: no such model, none ready, one whose rows number the categories of another package's model, a training of it
            that waits to be resumed, or somebody is changing it.
    """
    parent = revisable(models, name, "SHRINK MODEL removes rows")
    with weights(parent, engine) as relation:
        check_condition(engine, relation, condition, "SHRINK MODEL")
        for table in parent.manifest.tables:
            schema_of(engine, _kept(relation, table, condition), condition)
        with models.begin(name, revised(parent, statement)) as draft:
            try:
                rows = [_write(draft, engine, table, _kept(relation, table, condition)) for table in parent.manifest.tables]
            except StatementError:
                draft.discard()
                raise
            copy_others(parent, draft, ("dense", "candidates", "trials", "tree", "calibration", "profile", "program"))
            draft.commit(draft.manifest.having_learned(rows=rows[0] if rows else 0))
            return parent.manifest, draft.manifest


def revisable(models: Models, name: str, what: str) -> Version:
    """Return the version of a model that is served, of which another one can be made without learning.

    Args:
        what: a statement and what it does, for messages.

    Raises:
        ModelError: no such model, one whose rows number the categories of another package's model, or a training of it that
            waits to be resumed.
    """
    parent = models.version(name)
    if parent.package.exists():
        raise ModelError(
            f"{what}, and the rows of {parent.manifest.algorithm.name} are the numbers of its categories, "
            "by which it predicts and is continued. TRAIN a model of fewer categories instead."
        )
    if (waiting := newest_interrupted(models.present(name))) is not None:
        raise ModelError(
            f"Version {waiting.number} of model {name} was interrupted, and a newer one would lack what it has learned. RESUME "
            f"MODEL {name} first, or DROP MODEL {name} VERSION {waiting.number}."
        )
    return parent


def copy_others(parent: Version, draft: Draft, folders: Sequence[str]) -> None:
    """Copy what a version has beside its rows."""
    for folder in folders:
        parent.copy(folder, draft.folder / folder)
    for vectors in parent.manifest.vectors:
        parent.copy(f"vectors/{vectors.name}", draft.vectors_of(vectors.name))


def revised(parent: Version, statement: str) -> Manifest:
    """Return the manifest of a version that learned nothing of its own: base rate and metrics are of its parent's training."""
    return dataclasses.replace(
        parent.manifest,
        statement=statement,
        parent=parent.number,
        base=None,
        requires=tuple(name for name in parent.manifest.requires if name != DELTA),
        splits=(),
        finished=None,
        seconds=None,
    ).having_learned(examples=0, origin=OriginEntry())


def check_condition(engine: Engine, relation: Relation, condition: str, statement: str) -> None:
    """Require a condition on the columns of ML.WEIGHTS; a view of them, so that errors list these columns."""
    view = internal_name("weights")
    try:
        engine.execute(f"CREATE TEMPORARY VIEW {view} AS {relation.select()}")
        kind = schema_of(engine, f"SELECT (\n{condition}\n) FROM {view}", condition).field(0).type
    finally:
        engine.execute(f"DROP VIEW IF EXISTS {view}")
    if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise StatementError(f"{statement} takes a condition, which is BOOLEAN; this one is {spark_type(kind).upper()}.")


def schema_of(engine: Engine, query: str, condition: str) -> pa.Schema:
    """Return the columns of a query that holds the condition on lines of its own; errors are placed in the condition."""
    try:
        return engine.schema(query)
    except StatementError as error:
        if error.position is None:
            raise
        line = error.position.line - query[: query.rindex(f"\n{condition}\n") + 1].count("\n")
        inside = 1 <= line <= condition.count("\n") + 1
        raise error.at(error.position._replace(line=line) if inside else None) from error


def _kept(relation: Relation, table: TableEntry, condition: str) -> str:
    """Return the query of a table's stored rows that stay; their names carry a prefix, beside the columns of ML.WEIGHTS."""
    names = rows_schema(table).names
    stored = relation.select_table(table.name, extra={f"{STORED}{name}": f"`{name}`" for name in names})
    listed = ", ".join(f"`{STORED}{name}` AS `{name}`" for name in names)
    # The condition ends with a line break, in case it ends with a comment.
    return f"SELECT {listed} FROM ({stored}) AS weights WHERE NOT coalesce((\n{condition}\n), FALSE)"


def _write(draft: Draft, engine: Engine, table: TableEntry, kept: str) -> int:
    """Write the rows of a query as a table of the draft, and return how many there are."""
    folder = draft.rows_of(table.name)
    with storing(folder):
        folder.mkdir(parents=True)
    return engine.write_files(kept, folder, ".parquet", partial(_write_part, table))


def _write_part(table: TableEntry, path: Path, rows: pa.RecordBatchReader) -> int:
    """Write rows of a query of stored rows as they are stored, and return how many there were."""
    with RowWriter(path, table) as writer:
        for batch in rows:
            columns = [column.cast(field.type) for column, field in zip(batch.columns, writer.schema, strict=True)]
            writer.write(pa.RecordBatch.from_arrays(columns, schema=writer.schema))
    return writer.rows
