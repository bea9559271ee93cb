"""Versions that have values of vertices in place of weights."""

from __future__ import annotations

from ....algorithms.graphs.limbs import TABLE
from ....warehouse.manifest import Manifest
from ..clauses.column_roles import EDGE_SOURCE


def has_vertices(manifest: Manifest) -> bool:
    """Return whether the rows of a version are values of vertices."""
    return EDGE_SOURCE.kept(manifest) is not None and [table.name for table in manifest.tables] == [TABLE]
