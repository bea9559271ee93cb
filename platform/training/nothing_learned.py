"""What a training statement answers where there was nothing to learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from ...warehouse.version import Version


def unchanged(version: Version, status: str) -> pa.Table:
    """Return the row of a version that stays the newest, with a status that says why."""
    manifest = version.manifest
    row = {
        "model": manifest.model,
        "version": version.number,
        "status": status,
        "examples": 0,
        "features": manifest.learned.rows,
    }
    metrics = {metric: manifest.metrics.get(metric) for metric in ("auc", "logloss", "pcopc")}
    return pa.Table.from_pylist([{**row, **metrics, "seconds": 0.0}])
