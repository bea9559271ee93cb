"""Tables of Iceberg catalogs, which statements make and fill."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import Position, StatementError
from ...spark_types import spark_schema
from ..iceberg import catalog_of, table_of

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table, Transaction

TRIES = 4
SMALL = (pa.int8(), pa.int16())


class IcebergCatalogTable:
    """A table of a catalog; see OpenTable.

    Args:
        parts: of its name: the catalog, the namespace, the table.
    """

    def __init__(self, parts: Sequence[str], position: Position | None) -> None:
        self._parts = tuple(parts)
        self._name = ".".join(parts)
        self._position = position

    def schema(self) -> pa.Schema:
        """Return its columns."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return spark_schema(schema_to_pyarrow(self._table().schema(), include_field_ids=False))

    def exists(self) -> bool:
        """Return whether the catalog has it."""
        found: bool = catalog_of(self._parts[0], self._position).table_exists(self._parts[1:])
        return found

    def partitioned_by(self) -> tuple[str, ...]:
        """Return the columns of identity partitions; those of other transforms are the table's own affair."""
        table = self._table()
        names = [table.schema().find_column_name(f.source_id) for f in table.spec().fields if str(f.transform) == "identity"]
        return tuple(filter(None, names))

    def create(self, schema: pa.Schema, partitioned_by: Sequence[str], rows: Callable[[], pa.RecordBatchReader] | None) -> int:
        """Make the table and its first snapshot in one step."""
        from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError

        catalog = catalog_of(self._parts[0], self._position)
        widened = pa.schema([f.with_type(pa.int32()) if f.type in SMALL else f for f in schema])
        try:
            with catalog.create_table_transaction(self._parts[1:], widened) as made:
                if partitioned_by:
                    with made.update_spec() as spec:
                        for column in partitioned_by:
                            spec.add_identity(column)
                return 0 if rows is None else appended(made, rows(), widened, bool(partitioned_by))
        except NoSuchNamespaceError as error:
            raise StatementError(
                f"The catalog has no namespace {'.'.join(self._parts[1:-1])}. Make it there.", self._position
            ) from error
        except TableAlreadyExistsError as error:
            raise StatementError(f"The table {self._name} was made by another statement meanwhile.", self._position) from error

    def write(
        self,
        rows: Callable[[], pa.RecordBatchReader],
        overwrite: bool,
        only: Mapping[str, pa.Scalar[pa.DataType]],
    ) -> int:
        """Add a snapshot, again on top of another writer's where that was faster."""
        from pyiceberg.exceptions import CommitFailedException

        for number in range(TRIES):
            table = self._table()
            try:
                with warnings.catch_warnings(), table.transaction() as change:
                    warnings.filterwarnings("ignore", "Delete operation did not match")  # an empty partition is filled
                    if overwrite and table.current_snapshot() is not None:
                        change.delete(delete_filter=filter_of(only))
                    schema, parted = self.schema(), bool(table.spec().fields)
                    count = appended(change, rows(), schema, parted)
            except CommitFailedException as error:
                if number + 1 < TRIES:
                    continue
                newest = self._table().current_snapshot()
                raise StatementError(
                    f"{self._name} was changed by other writers {TRIES} times while rows were written, the last snapshot is "
                    f"{'none' if newest is None else newest.snapshot_id}. Run the statement again.",
                    self._position,
                ) from error
            except (ValueError, NotImplementedError) as error:
                raise StatementError(f"{self._name} does not take these rows: {error}.", self._position) from error
            return count
        raise AssertionError("unreachable")

    def _table(self) -> Table:
        return table_of(self._parts, self._position)


def appended(change: Transaction, rows: pa.RecordBatchReader, schema: pa.Schema, parted: bool) -> int:
    """Write rows to data files, and return how many there are; those of a partitioned table are held in memory until they are
    written, as pyiceberg takes no stream of them."""
    counts: list[int] = []

    def batches() -> object:
        for batch in rows:
            counts.append(batch.num_rows)
            yield batch.cast(schema)

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    change.append(reader.read_all() if parted else reader)
    return sum(counts)


def filter_of(only: Mapping[str, pa.Scalar[pa.DataType]]) -> BooleanExpression:
    """Return the rows that have some values."""
    from pyiceberg.expressions import AlwaysTrue, And, EqualTo, IsNull

    found: BooleanExpression = AlwaysTrue()
    for column, value in only.items():
        own = EqualTo(column, value.as_py()) if value.is_valid else IsNull(column)
        found = And(found, own)
    return found
