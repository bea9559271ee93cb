"""A table of Delta as a stream: what each version of its log adds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ...engines.duckdb.files.delta import delta_version, opened
from ...errors import DataError, StatementError
from ...local import local_path
from .snapshots import Arrival, SnapshotStream

KIND = "delta"


class DeltaStream(SnapshotStream):
    """The files that versions add; see SnapshotStream.

    Args:
        path: of the folder.

    Raises:
        StatementError: the folder is in an object store.
    """

    def __init__(self, path: str, warehouse: Path, forgives: bool) -> None:
        super().__init__(warehouse, forgives)
        self._path = local_path(path, "A stream of Delta", None)

    @property
    def name(self) -> str:
        """The table's, as messages call it."""
        return f"{KIND} {self._path}"

    def newest(self) -> str | None:
        """Return the newest version."""
        return str(opened(str(self._path), None, None)[0].version())

    def arrivals(self, last: str | None) -> Iterator[Arrival]:
        """Yield the versions after one."""
        table, _ = opened(str(self._path), None, None)
        if table.metadata().partition_columns:
            by = ", ".join(table.metadata().partition_columns)
            raise StatementError(
                f"The {self.name} is partitioned by {by}, whose values are not in its files, and a stream reads files. Train "
                "on the table, without STREAM."
            )
        newest = int(table.version())
        if last is None or int(last) > newest:
            if last is not None:
                gone = f"Version {last} of the {self.name} was learned, and it ends at {newest}: it was made again."
                yield Arrival(str(newest), (), gone)
            yield Arrival(str(newest), tuple(local(uri) for uri in delta_version(str(self._path), None)[0]))
            return
        for version in range(int(last) + 1, newest + 1):
            actions = self._actions(version)
            if actions is None:
                gone = f"The log of the {self.name} has no version {version} any more, of {newest}, and {last} was learned."
                yield Arrival(str(version), (), gone)
                continue
            if version > int(last) + 1 and any("metaData" in action for action in actions):
                return  # files of other columns begin a segment
            yield self._arrival(version, actions)

    def check(self, files: Sequence[str]) -> None:
        """Files of a table of Delta have its columns by name; what differs is refused when it is read."""

    def _actions(self, version: int) -> list[dict[str, Any]] | None:
        """Return what a version of the log says; None where a cleanup has removed it."""
        try:
            text = (self._path / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise DataError(f"Version {version} of the {self.name} cannot be read: {error}. Repair its log.") from error

    def _arrival(self, version: int, actions: Sequence[dict[str, Any]]) -> Arrival:
        """Return what a version added, Source: Delta transaction log protocol."""
        changes = [(kind, one) for action in actions for kind, one in action.items() if kind in ("add", "remove")]
        changed = [(kind, one) for kind, one in changes if one.get("dataChange", True)]
        if any(kind == "remove" for kind, _ in changed):
            gone = "has removed or overwritten rows that were learned from, or would have been."
            return Arrival(str(version), (), f"Version {version} of the {self.name} {gone}")
        if any(one.get("deletionVector") for _, one in changed):
            gone = "adds files with deletion vectors, which a stream does not read."
            return Arrival(str(version), (), f"Version {version} of the {self.name} {gone}")
        return Arrival(str(version), tuple(sorted(str(self._path / unquote(one["path"])) for _, one in changed)))


def local(uri: str) -> str:
    """Return the path of a file that deltalake names."""
    return str(local_path(uri, "A stream of Delta", None))
