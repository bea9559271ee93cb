"""A query's result where it can be read in pieces: in place, or staged in a temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..engines.base import Engine, Scan


@contextmanager
def readable(engine: Engine, query: str) -> Iterator[Scan]:
    """Give a scan of a query's rows; what had to be staged goes when the block ends."""
    scan = engine.scan(query)
    if scan is not None:
        yield scan
        return
    with tempfile.TemporaryDirectory(prefix="xpsql-") as folder:
        yield engine.stage(query, Path(folder) / "rows")
