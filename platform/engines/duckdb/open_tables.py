"""Tables of other programs that statements make and fill: of Iceberg, `lake.sales.log`, and of Delta, delta.`folder`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from ...errors import StatementError
from ..changes import OR_REPLACE, check_columns, exists
from ..spark_sql.tree import Name
from .delta_tables import DeltaTables
from .iceberg_tables import IcebergCatalogTable

Rows = Callable[[], pa.RecordBatchReader]
"""Starts a query again each time: who loses a race against another writer tries once more."""
Values = Mapping[str, "pa.Scalar[pa.DataType]"]


class OpenTable(Protocol):
    """A table of another program."""

    def schema(self) -> pa.Schema:
        """Return its columns in Spark's types.

        Raises:
            StatementError: there is no such table.
            NotAvailableError: the package that reads it is not installed.
        """
        ...

    def exists(self) -> bool:
        """Return whether there is such a table."""
        ...

    def partitioned_by(self) -> tuple[str, ...]:
        """Return the columns by whose values its files are apart."""
        ...

    def create(self, schema: pa.Schema, partitioned_by: Sequence[str], rows: Rows | None) -> int:
        """Make the table with the rows of a query, in one step, and return how many there are."""
        ...

    def write(self, rows: Rows, overwrite: bool, only: Values) -> int:
        """Add rows in one step, and return how many there are.

        Args:
            overwrite: in the place of rows with the values `only`, of all where it is empty.

        Raises:
            StatementError: the table takes no such rows, or other writers were faster again and again.
        """
        ...


def open_table(name: Name) -> OpenTable:
    """Return what a name with a catalog stands for."""
    if name.within == ("delta",):
        return DeltaTables(name.name, name.position)
    return IcebergCatalogTable((*name.within, name.name), name.position)


def put(name: Name, schema: pa.Schema, partitioned_by: Sequence[str], rows: Rows | None, replace: bool) -> int:
    """Make a table of another program, or replace the rows of one, and return how many there are.

    Raises:
        StatementError: there is one, or it has other columns.
    """
    check_columns(schema)
    table = open_table(name)
    if not table.exists():
        return table.create(schema, partitioned_by, rows)
    if not replace:
        raise exists("table", name, OR_REPLACE)
    if rows is None or table.schema().names != schema.names or table.partitioned_by() != tuple(partitioned_by):
        raise StatementError(f"{name.name} has other columns than the query. Drop it where it is kept.", name.position)
    return table.write(rows, overwrite=True, only={})
