"""A table of the warehouse as a stream: INSERT adds files, and files are immutable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....warehouse.entries import Split
from ....warehouse.tables import Tables
from ...display import plural
from ...engines.base import Scan
from ...engines.unknown_names import absent
from ...errors import DataError
from .base import Position
from .files import file_at, files_of, scan_of, splits_of


class TableStream:
    """The files of a table, in the order in which they were added.

    The position has the name of the last learned file, and the numbers of learned files and rows.

    Args:
        forgives: where the table was replaced, begin with what it has now.
    """

    def __init__(self, table: str, warehouse: Path, forgives: bool) -> None:
        self._table = plain_name(table)
        self._tables = Tables(warehouse)
        self._warehouse = warehouse
        self._forgives = forgives

    @property
    def name(self) -> str:
        """The table's, as messages call it."""
        return f"table {self._table}"

    def waits(self, position: Position) -> bool:
        """Return whether the table has files that were not learned."""
        files = self._files()
        return bool(files) and Path(files[-1]).name != position.get("last")

    def news(self, position: Position) -> list[Split]:
        """List the row groups of the files that were added."""
        files, last = self._files(), position.get("last")
        names = [Path(path).name for path in files]
        if last is not None and last not in names and not self._forgives:
            raise DataError(
                f"The {self.name} was replaced: {self.counted(position)} of it were learned from, and none of the {len(files)} "
                "files that it has now. Learn from these with WITH (data_loss = 'continue'), or train again."
            )
        first = names.index(last) + 1 if last in names else 0
        return [split for path in files[first:] for split in splits_of(file_at(Path(path)))]

    def after(self, position: Position, splits: Sequence[Split]) -> Position:
        """Return the position after all files that are learned from."""
        new = files_of(splits)
        if not new:
            return position
        rows = position.get("rows", 0) + sum(split.rows for split in splits)
        return {"files": position.get("files", 0) + len(new), "rows": rows, "last": Path(new[-1].path).name}

    def counted(self, position: Position) -> str:
        """Return how many rows and files that is."""
        count = position.get("files", 0)
        return f"{position.get('rows', 0):,} rows in {count} {plural('file', count)}"

    def scan(self, query: str, splits: Sequence[Split]) -> Scan:
        """Return how row groups are read."""
        return scan_of(query, splits, self._warehouse)

    def _files(self) -> tuple[str, ...]:
        found = self._tables.files(self._table)
        if found is None:
            raise absent("table", self._table, self._tables.names(), None)
        return found


def plain_name(name: str) -> str:
    """Return a table's name without its database.

    Raises:
        StatementError: a database that the warehouse does not have.
    """
    if "." not in name:
        return name.lower()
    from ...engines.spark_sql.statements import unqualified  # imports sqlglot, which a job that finds nothing new does not need

    return unqualified(name.split("."), None)
