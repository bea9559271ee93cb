"""Row-wise queries: each result row comes from one row of one relation, so that any worker can evaluate them piece by piece."""

from __future__ import annotations

from pathlib import Path

from sqlglot import exp

from ....warehouse.tables import Tables
from ....warehouse.views import Views
from ..base import Staged, check_names_apart
from ..parquet_scan import ParquetScan
from ..spark_sql.parsing import parse_query
from ..spark_sql.statements import read_query
from .files.source import FileSource, check_names
from .queries import Queries
from .relations import Relations
from .scans import ROWS, scan_of

PARTS = {
    exp.Join: "JOIN",
    exp.Lateral: "LATERAL VIEW",
    exp.Group: "GROUP BY",
    exp.Having: "HAVING",
    exp.Order: "ORDER BY",
    exp.Limit: "LIMIT",
    exp.Distinct: "DISTINCT",
    exp.Window: "a window function",
    exp.Union: "UNION",
    exp.Except: "EXCEPT",
    exp.Intersect: "INTERSECT",
    exp.With: "WITH",
}
"""Nodes that make a row of several rows, or read more than one relation."""
SEVERAL = "the query has an aggregate, or a function that gives several rows"


def more_than_joins(query: str) -> str | None:
    """Return in words what makes a query depend on rows that have not arrived; None where it has nothing but joins."""
    tree = parse_query(query)
    names = (name for kind, name in PARTS.items() if kind is not exp.Join and tree.find(kind) is not None)
    found = next(names, "an aggregate" if tree.find(exp.AggFunc) is not None else None)
    return None if found is None else f"the query has {found}"


def row_wise(query: str, view: str, file: str, warehouse: Path) -> ParquetScan | str:
    """Return how a query is evaluated row by row over one relation, or in words why it cannot be.

    Args:
        query: in Spark SQL.
        view: the relation's name.
        file: a Parquet file with its columns; the scan is that of this file.

    Raises:
        StatementError: the query cannot run, or two of its columns have one name.
    """
    tree = parse_query(query)
    if (more := next((name for kind, name in PARTS.items() if tree.find(kind) is not None), None)) is not None:
        return f"the query has {more}"
    check_names(file)
    relations = Relations(Tables(warehouse), Views(warehouse))
    relations.temporary[view] = FileSource.of_files([file])
    scan = scan_of(read_query(query), relations, Queries(relations))
    if isinstance(scan, Staged):
        check_names_apart(scan.schema)
        return SEVERAL if scan.reason == ROWS else scan.reason
    assert isinstance(scan, ParquetScan)  # scan_of gives no other
    return scan
