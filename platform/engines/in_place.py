"""Queries that read columns of Parquet files as they are stored, the same on every engine."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
from sqlglot import exp

from ..errors import Position, StatementError
from ..spark_types import is_known
from .parquet_files import schema_of

CLAUSES = ("expressions", "from_", "where", "kind", "hint")


def bare(node: exp.Expr, clauses: Collection[str]) -> bool:
    """Return whether a node has no clauses but these."""
    return not any(value for clause, value in node.args.items() if clause not in clauses)


def stored_schema(files: tuple[str, ...]) -> pa.Schema | None:
    """Return the columns of files; None where they differ, or have a type that Spark does not.

    Raises:
        StatementError: one cannot be read.
    """
    schemas = list(map(columns_of, files))
    same = all(schema.equals(schemas[0]) for schema in schemas)
    return schemas[0] if same and all(map(is_known, schemas[0].types)) else None


def columns_of(file: str, position: Position | None = None) -> pa.Schema:
    """Return the columns of a Parquet file.

    Raises:
        StatementError: it cannot be read.
    """
    try:
        return schema_of(file)
    except (pa.ArrowException, OSError) as error:
        raise StatementError(f"{file} cannot be read as Parquet: {str(error).rstrip('.')}.", position) from error


def as_stored(columns: dict[str, str], schema: pa.Schema, stored: pa.Schema) -> bool:
    """Return whether the files have the result's columns in the result's types; a timestamp without zone is one in UTC."""
    kinds = [(schema.field(name).type, stored.field(own).type) for name, own in columns.items()]
    return all(kind == (own.value_type if pa.types.is_dictionary(own) else in_utc(own)) for kind, own in kinds)


def in_utc(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) and kind.unit != "ns" else kind
