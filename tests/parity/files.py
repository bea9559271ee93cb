"""Files that both engines read, for the parity table of files: the cases of cases/*.py, and how each is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tests.parity.table import HERE

ANSWERS = HERE / "files.json"


class Case(NamedTuple):
    """Files of one folder, and how a view reads them.

    Attributes:
        format: of the view.
        files: their bytes, or the rows of a Parquet file, by path.
        options: of the view, but for its path.
        columns: of the view; empty for those that are found.
        query: of the view v.
    """

    format: str
    files: Mapping[str, str | bytes | pa.Table]
    options: Mapping[str, str] = {}
    columns: str = ""
    query: str = "SELECT * FROM v"


def write(case: Case, folder: Path) -> None:
    """Write the files of a case."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def read(case: Case, folder: Path, run: Callable[[str], object]) -> None:
    """Make the view of a case."""
    options = ", ".join(f"{name} '{escaped(value)}'" for name, value in {"path": str(folder), **case.options}.items())
    columns = f" ({case.columns})" if case.columns else ""
    run(f"CREATE OR REPLACE TEMPORARY VIEW v{columns} USING {case.format} OPTIONS ({options})")


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
