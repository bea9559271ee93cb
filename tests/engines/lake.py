"""A catalog of Iceberg on SQLite, with its tables in a local folder, named `lake` to pyiceberg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

TYPES = pa.schema([("user", pa.string()), ("x", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])


def catalog(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a catalog with the namespace `sales`."""
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{folder}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{folder}/lake")
    made = load_catalog("lake", **(Config().get_catalog_config("lake") or {}))
    made.create_namespace("sales")
    return made


def some(*values: int, user: str = "u") -> pa.Table:
    """Return rows of TYPES."""
    return pa.table([[f"{user}{x % 3}" for x in values], list(values), list(values)], schema=TYPES)
