"""Tables of other programs as streams: what each snapshot appends, in the order of the snapshots; files are immutable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ....warehouse.entries import Split
from ...display import plural
from ...engines.base import Scan
from ...errors import DataError
from .base import Position
from .files import file_at, files_of, scan_of, splits_of


class Arrival(NamedTuple):
    """A snapshot, by its number, and the files that came with it, in order.

    Attributes:
        gone: why its rows cannot be learned, in words; None: they can.
    """

    number: str
    files: tuple[str, ...]
    gone: str | None = None


class SnapshotStream(ABC):
    """The files that snapshots append.

    The position has the last snapshot of which all files were learned, those of the next one that were, and the numbers of
    learned files and rows. A first training begins with what the table has, a later one with what was appended since.

    Args:
        forgives: rows that were deleted or overwritten, and snapshots that are gone, are passed over.
    """

    def __init__(self, warehouse: Path, forgives: bool) -> None:
        self._warehouse = warehouse
        self._forgives = forgives
        self._found: tuple[Position | None, list[Arrival]] = (None, [])

    @property
    @abstractmethod
    def name(self) -> str:
        """The table's, as messages call it."""

    @abstractmethod
    def newest(self) -> str | None:
        """Return the number of the present snapshot; None where there is none."""

    @abstractmethod
    def arrivals(self, last: str | None) -> Iterator[Arrival]:
        """Yield the snapshots after one, the oldest first; those that are left of a table where None was learned."""

    @abstractmethod
    def check(self, files: Sequence[str]) -> None:
        """Require that files have columns as the table names them.

        Raises:
            DataError: they do not.
        """

    def waits(self, position: Position) -> bool:
        """Return whether the table has another snapshot than the position."""
        newest = self.newest()
        return newest is not None and (newest != position.get("snapshot") or bool(position.get("also")))

    def news(self, position: Position) -> list[Split]:
        """List the row groups of the files that were appended.

        Raises:
            DataError: rows were deleted or overwritten, or snapshots between are gone; see InputStream.
        """
        arrivals, also = list(self.arrivals(position.get("snapshot"))), set(position.get("also", ()))
        self._found = dict(position), arrivals
        gone = next((arrival.gone for arrival in arrivals if arrival.gone is not None), None)
        if gone is not None and not self._forgives:
            raise DataError(f"{gone} WITH (data_loss = 'continue') passes over that.")
        paths = [path for arrival in arrivals for path in arrival.files if path not in also]
        if (far := next((path for path in paths if not path.startswith("/")), None)) is not None:
            raise DataError(
                f"{far} of the {self.name} is in an object store, and such streams read files of this machine. Train on the "
                "table, without STREAM."
            )
        try:
            found = [file_at(Path(path)) for path in paths]
        except FileNotFoundError as error:
            raise DataError(
                f"{error.filename} of the {self.name} was removed before it was learned from: its retention is shorter than "
                "the time between two trainings. Train on the table again."
            ) from error
        self.check(paths)
        return [split for file in found for split in splits_of(file)]

    def after(self, position: Position, splits: Sequence[Split]) -> Position:
        """Return the position after files that are learned from."""
        new = files_of(splits)
        if not new:
            return position
        before, arrivals = self._found
        if before != position:
            arrivals = list(self.arrivals(position.get("snapshot")))
        learned = {*position.get("also", ()), *(file.path for file in new)}
        found = {"snapshot": position["snapshot"]} if "snapshot" in position else {}
        for arrival in arrivals:
            if not learned.issuperset(arrival.files):
                found |= {"also": also} if (also := sorted(learned.intersection(arrival.files))) else {}
                break
            found["snapshot"] = arrival.number
        rows = position.get("rows", 0) + sum(split.rows for split in splits)
        return {**found, "files": position.get("files", 0) + len(new), "rows": rows}

    def forgiven(self, position: Position) -> Position:
        """Return the position after snapshots that bring nothing to learn; before others, which lead past what is gone."""
        arrivals = list(self.arrivals(position.get("snapshot")))
        if not position or not arrivals or any(set(arrival.files).difference(position.get("also", ())) for arrival in arrivals):
            return position
        return {**{name: position[name] for name in ("files", "rows")}, "snapshot": arrivals[-1].number}

    def noticed(self, position: Position) -> str | None:
        """Return nothing: what is gone stops a training, or is passed over."""
        return None

    def counted(self, position: Position) -> str:
        """Return how many rows and files that is."""
        count = position.get("files", 0)
        return f"{position.get('rows', 0):,} rows in {count} {plural('file', count)}"

    def scan(self, query: str, splits: Sequence[Split]) -> Scan:
        """Return how row groups are read."""
        return scan_of(query, splits, self._warehouse)
