"""Tables of Delta, which statements make and fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import NotAvailableError, Position, StatementError
from ...local import local_path
from ...objects import is_object
from ...spark_types import spark_schema
from ...system import needing
from ..targets import Target
from .files.delta import opened


class DeltaTables:
    """A folder with a log of Delta; see OpenTable."""

    def __init__(self, path: str, position: Position | None) -> None:
        self._path = path
        self._position = position
        self._place = path if is_object(path) else str(local_path(path, "A Delta table", position))

    def schema(self) -> pa.Schema:
        """Return its columns."""
        _, rows = opened(self._path, None, self._position)
        return spark_schema(rows.schema)

    def exists(self) -> bool:
        """Return whether the folder has a log."""
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise NotAvailableError(needing("Delta tables need deltalake", "delta"), self._position) from error
        found: bool = DeltaTable.is_deltatable(self._place)
        return found

    def partitioned_by(self) -> tuple[str, ...]:
        """Return the columns of its partitions."""
        table, _ = opened(self._path, None, self._position)
        return tuple(table.metadata().partition_columns)

    def create(self, schema: pa.Schema, partitioned_by: Sequence[str], rows: Callable[[], pa.RecordBatchReader] | None) -> int:
        """Write version 0."""
        target = Target.of(self._path, "A Delta table", self._position)
        if target.names():
            raise StatementError(f"{target} has files that are no Delta table's. Choose another folder.", self._position)
        if not is_object(self._path):
            Path(self._place).mkdir(parents=True, exist_ok=True)
        made = schema.empty_table().to_reader() if rows is None else rows()
        return self._written(made, {"mode": "error", "partition_by": list(partitioned_by) or None})

    def write(
        self,
        rows: Callable[[], pa.RecordBatchReader],
        overwrite: bool,
        only: Mapping[str, pa.Scalar[pa.DataType]],
    ) -> int:
        """Write the next version; deltalake itself goes on top of another writer's."""
        predicate = " AND ".join(map(equals, only, only.values())) or None
        return self._written(rows(), {"mode": "overwrite", "predicate": predicate} if overwrite else {"mode": "append"})

    def _written(self, rows: pa.RecordBatchReader, how: dict[str, Any]) -> int:
        from deltalake import write_deltalake
        from deltalake.exceptions import DeltaError

        counts: list[int] = []

        def batches() -> object:
            for batch in rows:
                counts.append(batch.num_rows)
                yield batch

        try:
            write_deltalake(self._place, pa.RecordBatchReader.from_batches(rows.schema, batches()), **how)
        except (DeltaError, OSError, ValueError) as error:
            raise StatementError(f"{self._path} cannot be written as a Delta table: {error}.", self._position) from error
        return sum(counts)


def equals(column: str, value: pa.Scalar[pa.DataType]) -> str:
    """Return the condition of a value in deltalake's SQL."""
    name = '"' + column.replace('"', '""') + '"'
    if not value.is_valid:
        return f"{name} IS NULL"
    text = str(value.cast(pa.string()))
    plain = pa.types.is_integer(value.type) or pa.types.is_boolean(value.type)
    return f"{name} = {text}" if plain else f"{name} = '" + text.replace("'", "''") + "'"
