"""Queries that are read in place: row by row over Parquet files, directly, or through views and subqueries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ..base import Scan, Staged
from ..in_place import CLAUSES, as_stored, bare, stored_schema
from ..parquet_scan import ParquetScan
from ..sources import names_in
from ..spark_sql.parsing import parse_query
from ..spark_sql.tree import QueryText
from ..spark_sql.words import VARYING
from .files.memory import MemorySource
from .files.source import FileSource
from .projection import PIECE, projection_of
from .references import condition_of, references
from .relations import Relations, rename

if TYPE_CHECKING:
    from .queries import Queries

ORIGIN = ("this", "db", "catalog", "alias", "version")
ROWS = "its rows are not made one by one of the rows of Parquet files"
MOMENTS = frozenset(("now", "curdate", "current_date", "current_time", "current_timestamp", "localtimestamp"))


def scan_of(query: QueryText, relations: Relations, queries: Queries) -> Scan | Staged:
    """Return how to read a query's result in place, or why it has to be staged.

    Raises:
        StatementError: the query cannot run.
    """
    schema = queries.schema(query)
    tree = parse_query(query.text)
    source = origin_of(tree, relations, queries)
    if len({name.lower() for name in schema.names}) < len(schema):
        return Staged(schema, "two of its columns have one name")
    if source is None or source.parquet is None:
        return Staged(schema, ROWS)
    stored = stored_schema(source.parquet)
    if stored is None:
        return Staged(schema, "its files differ in their columns, or have types that Spark does not")
    columns = references(tree, stored.names)
    if columns is not None and as_stored(columns, schema, stored):
        return ParquetScan(source.parquet, columns, None, tuple(dict.fromkeys(columns.values())), schema)
    condition = condition_of(tree, stored)
    project = projection_of(tree, source, stored, schema, queries.steady)
    if project is None:
        return Staged(schema, ROWS)
    own = {name: name for name in schema.names}
    return ParquetScan(source.parquet, own, project, project.needed, schema, condition=condition)


def origin_of(tree: exp.Expr, relations: Relations, queries: Queries) -> FileSource | None:
    """Return the files that a nest of simple SELECTs reads, and make the tree read a piece of them; None for other queries.

    Views become subqueries, so that the tree is complete.
    """
    if not simple(tree):
        return None
    origin = tree.args["from_"].this
    if isinstance(origin, exp.Subquery):
        return origin_of(origin.this, relations, queries) if bare(origin, ORIGIN) else None
    if not isinstance(origin, exp.Table) or not bare(origin, ORIGIN) or not names_in(tree):
        return None
    found = relations.resolve(origin, queries.wide)
    if isinstance(found, FileSource):
        rename(origin, PIECE)
        return found
    if isinstance(found, MemorySource):
        return None
    inner = parse_query(found.query)
    columns = [exp.to_identifier(column, quoted=True) for column in found.columns]
    alias = exp.TableAlias(this=exp.to_identifier(origin.alias_or_name, quoted=True), columns=columns)
    origin.replace(exp.Subquery(this=inner, alias=alias))
    return origin_of(inner, relations, queries)


def simple(tree: exp.Expr) -> bool:
    """Return whether a query is a SELECT of expressions FROM one relation, filtered at most, always with the same result."""
    if not isinstance(tree, exp.Select) or not tree.args.get("from_") or not bare(tree, CLAUSES):
        return False
    parts = [*tree.expressions, *([tree.args["where"]] if tree.args.get("where") else [])]
    return not any(differs(node) for part in parts for node in part.walk())


def differs(node: exp.Expr) -> bool:
    """Return whether a node reads other relations, or gives another value the next time."""
    if isinstance(node, exp.Query | exp.CurrentTimestamp | exp.CurrentDate):
        return True
    if not isinstance(node, exp.Anonymous):
        return False
    return node.name.lower() in VARYING | MOMENTS or (node.name.lower() == "unix_timestamp" and not node.expressions)
