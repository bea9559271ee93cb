"""The rows that a metric is measured on: `measured_on`, in every table and page that shows one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from ....warehouse.manifest import Manifest

MEASURED_ON = pa.field("measured_on", pa.string())
PROGRESSIVE, TRAINING, VALIDATION_ROWS, QUERY = "progressive", "training", "validation", "query"
"""Rows that were predicted before they were learned from; rows that were learned from before they were predicted, on which a
model looks better than it is; rows of VALIDATE; rows that a statement gives."""


def measured_on(manifest: Manifest) -> str | None:
    """Return what a version's metrics were measured on: of a model that learns from all rows at once, which no shards hold
    meanwhile, the rows that it learned from. None where it has no metrics."""
    if not {*manifest.metrics} - {"examples"}:
        return None
    return PROGRESSIVE if manifest.sizes.shards else TRAINING
