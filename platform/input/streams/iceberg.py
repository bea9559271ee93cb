"""A table of an Iceberg catalog as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...engines.iceberg import columns, data_file, planned, table_of
from ...engines.parquet_files import schema_of
from ...errors import DataError
from .snapshots import Arrival, SnapshotStream

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

APPENDS, COMPACTS = "append", "replace"


class IcebergStream(SnapshotStream):
    """The files that snapshots append; see SnapshotStream.

    Args:
        parts: of the table's name.
    """

    def __init__(self, parts: Sequence[str], warehouse: Path, forgives: bool) -> None:
        super().__init__(warehouse, forgives)
        self._parts = tuple(parts)

    @property
    def name(self) -> str:
        """The table's, as messages call it."""
        return f"iceberg {'.'.join(self._parts)}"

    def newest(self) -> str | None:
        """Return the number of the present snapshot."""
        current = table_of(self._parts, None).current_snapshot()
        return None if current is None else str(current.snapshot_id)

    def arrivals(self, last: str | None) -> Iterator[Arrival]:
        """Yield the snapshots after one."""
        table = table_of(self._parts, None)
        chain = lineage(table)
        numbers = [str(snapshot.snapshot_id) for snapshot in chain]
        if last in numbers:
            for snapshot in chain[numbers.index(str(last)) + 1 :]:
                yield self._arrival(table, snapshot)
            return
        if last is not None and chain:
            yield Arrival(
                numbers[0],
                (),
                f"Snapshot {last} of the {self.name}, up to which it was learned from, is no ancestor of its snapshot "
                f"{numbers[-1]}: it has expired, or the table was rolled back.",
            )
        begin = max((i for i, one in enumerate(chain) if i == 0 or operation(one) not in (APPENDS, COMPACTS)), default=0)
        for snapshot in chain[begin : begin + 1]:
            yield self._whole(table, snapshot)
        for snapshot in chain[begin + 1 :]:
            yield self._arrival(table, snapshot)

    def check(self, files: Sequence[str]) -> None:
        """Refuse files with a column that was renamed: a reader by names would find none, or another one."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        names = {number: name for name, number, _ in columns(schema_to_pyarrow(table_of(self._parts, None).schema()))}
        for path in files:
            for name, number, _ in columns(schema_of(path)):
                if number and names.get(number, name) != name:
                    raise DataError(
                        f"{path} has a column {name}, which the {self.name} calls {names[number]} by now: a stream reads files "
                        "as they were written. Train on the table, and stream what is appended after that."
                    )

    def _whole(self, table: Table, snapshot: Snapshot) -> Arrival:
        """Return all files of a snapshot, with which a stream begins."""
        plan = planned(table, snapshot)
        if plan.deletes:
            raise DataError(
                f"Rows of the {self.name} are deleted by files of deletes, which a stream does not read. Compact it "
                "(rewrite_data_files), or train on the table first, without STREAM."
            )
        return Arrival(str(snapshot.snapshot_id), tuple(file.path for file in plan.files))

    def _arrival(self, table: Table, snapshot: Snapshot) -> Arrival:
        """Return what a snapshot appended."""
        kind, number = operation(snapshot), str(snapshot.snapshot_id)
        if kind == COMPACTS:
            return Arrival(number, ())
        if kind != APPENDS:
            gone = "has overwritten or deleted rows that were learned from, or would have been."
            return Arrival(number, (), f"Snapshot {number} of the {self.name} {gone}")
        scan = table.incremental_append_scan(
            from_snapshot_id_exclusive=snapshot.parent_snapshot_id, to_snapshot_id_inclusive=snapshot.snapshot_id
        )
        return Arrival(number, tuple(sorted(data_file(task.file, 0).path for task in scan.plan_files())))


def lineage(table: Table) -> list[Snapshot]:
    """Return the present snapshot's ancestors that are still there and itself, the oldest first."""
    found: list[Snapshot] = []
    snapshot = table.current_snapshot()
    while snapshot is not None:
        found.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return found[::-1]


def operation(snapshot: Snapshot) -> str:
    """Return what a snapshot did: append, replace, overwrite or delete."""
    return "" if snapshot.summary is None else str(snapshot.summary.operation.value)
