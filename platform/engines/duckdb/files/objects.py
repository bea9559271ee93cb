"""Object stores as DuckDB reads them: through Arrow's filesystems, so that one client asks for all files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....errors import NotAvailableError
from ....objects import SCHEMES, located, stamp
from ....system import needing

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def let_read(connection: DuckDBPyConnection, files: tuple[str, ...]) -> None:
    """Make the store of some files known to a database; local ones need nothing.

    Raises:
        NotAvailableError: fsspec is not installed.
    """
    scheme = files[0].partition("://")[0]
    if scheme not in SCHEMES or connection.filesystem_is_registered(scheme):
        return
    try:
        from fsspec import AbstractFileSystem
    except ImportError as error:
        raise NotAvailableError(needing(f"{scheme}:// needs fsspec", "objects")) from error

    class Objects(AbstractFileSystem):  # type: ignore[misc]
        protocol = (scheme,)
        cachable = False

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return path

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            found = stamp(path)
            return {"name": path, "size": found.size, "type": "file", "mtime": found.modified / 1e9}

        def modified(self, path: str) -> Any:
            from datetime import UTC, datetime

            return datetime.fromtimestamp(stamp(path).modified / 1e9, UTC)

        def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
            files, key = located(path)
            return files.open_input_file(key)

    connection.register_filesystem(Objects())
