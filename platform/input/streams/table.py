"""A table of the warehouse as a stream: INSERT adds files, and files are immutable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....warehouse.entries import Split
from ....warehouse.tables import Contents, Tables, place
from ...display import plural
from ...engines.base import Scan
from ...engines.unknown_names import absent
from ...errors import DataError
from .base import Position
from .files import file_at, files_of, scan_of, splits_of


class TableStream:
    """The files of a table, in the order in which they were added.

    The position has the name of the last learned file, the numbers of learned files and rows, how many rows up to there were
    deleted from the table, and how many of later files are gone and passed over.

    Args:
        forgives: where the table was replaced, begin with what it has now; rows that were deleted before they were learned from
            are passed over.
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
        """Return whether the table has files that were not learned, or had rows that were not."""
        contents, last = self._contents(), place(position.get("last", ""))
        known = last in {*contents.deleted, *map(place, contents.files)}
        return not known or place(contents.files[-1]) > last or bool(unread(contents, position) and not self._forgives)

    def news(self, position: Position) -> list[Split]:
        """List the row groups of the files that were added; the rest of a file whose rows were deleted is not new."""
        contents, last = self._contents(), position.get("last")
        new: tuple[str, ...] = contents.files
        if last is not None:
            if place(last) in {*contents.deleted, *map(place, contents.files)}:
                new = tuple(file for file in contents.files if place(file) > place(last))
            elif not self._forgives:
                raise DataError(
                    f"The {self.name} was replaced: {self.counted(position)} of it were learned from, and none of the "
                    f"{len(contents.files)} files that it has now. Learn from these with WITH (data_loss = 'continue'), or "
                    "train again."
                )
            if (rows := unread(contents, position)) and not self._forgives:
                raise DataError(
                    f"{rows:,} {plural('row', rows)} of the {self.name} were deleted before they were learned from. Learn from "
                    "what is left with WITH (data_loss = 'continue')."
                )
        return [split for path in self._tables.paths(self._table, new) for split in splits_of(file_at(Path(path)))]

    def after(self, position: Position, splits: Sequence[Split]) -> Position:
        """Return the position after all files that are learned from."""
        new = files_of(splits)
        if not new:
            return position
        rows, last = position.get("rows", 0) + sum(split.rows for split in splits), Path(new[-1].path).name
        deleted = sum(count for at, count in self._contents().deleted.items() if at <= place(last))
        known: dict[str, Any] = {"deleted": deleted} if deleted else {}
        if passed := {at: count for at, count in position.get("passed", {}).items() if at > place(last)}:
            known["passed"] = passed
        return {"files": position.get("files", 0) + len(new), "rows": rows, "last": last, **known}

    def forgiven(self, position: Position) -> Position:
        """Return the position without a last file that was replaced, or with the rows that are gone unread."""
        contents, last = self._contents(), position.get("last")
        if last is None:
            return position
        if place(last) not in {*contents.deleted, *map(place, contents.files)}:
            return {name: position[name] for name in ("files", "rows")}
        if not unread(contents, position):
            return position
        return {**position, "passed": {at: count for at, count in contents.deleted.items() if at > place(last)}}

    def noticed(self, position: Position) -> str | None:
        """Return how many rows that were learned from are gone since."""
        last = place(position.get("last", ""))
        rows = sum(count for at, count in self._contents().deleted.items() if at <= last) - position.get("deleted", 0)
        if rows <= 0:
            return None
        gone = f"{rows:,} {plural('row', rows)} of the {self.name}"
        return f"{gone} were deleted after they were learned from; the model keeps what it learned."

    def counted(self, position: Position) -> str:
        """Return how many rows and files that is."""
        count = position.get("files", 0)
        return f"{position.get('rows', 0):,} rows in {count} {plural('file', count)}"

    def scan(self, query: str, splits: Sequence[Split]) -> Scan:
        """Return how row groups are read."""
        return scan_of(query, splits, self._warehouse)

    def _contents(self) -> Contents:
        found = self._tables.contents(self._table)
        if found is None:
            raise absent("table", self._table, self._tables.names(), None)
        return found


def unread(contents: Contents, position: Position) -> int:
    """Return how many rows of files after a position are gone, but for those that were passed over."""
    last, passed = place(position.get("last", "")), position.get("passed", {})
    return sum(count - passed.get(at, 0) for at, count in contents.deleted.items() if at > last)


def plain_name(name: str) -> str:
    """Return a table's name without its database.

    Raises:
        StatementError: a database that the warehouse does not have.
    """
    if "." not in name:
        return name.lower()
    from ...engines.spark_sql.statements import unqualified  # imports sqlglot, which a job that finds nothing new does not need

    return unqualified(name.split("."), None)
