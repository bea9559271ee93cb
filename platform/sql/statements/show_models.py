"""SHOW MODELS: the models of the warehouse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..base import Statement
from ..cursor import Cursor

if TYPE_CHECKING:
    from ....warehouse.version import Version
    from ..context import StatementContext

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("version", pa.int64()),
        ("status", pa.string()),
        ("algorithm", pa.string()),
        ("examples", pa.int64()),
        ("rows", pa.int64()),
        ("auc", pa.float64()),
        ("created", pa.timestamp("us", "UTC")),
        ("progress", pa.string()),
    ]
)


@dataclass(frozen=True)
class ShowModels:
    """The models whose names match a pattern."""

    like: str | None

    def run(self, context: StatementContext) -> pa.Table:
        found = ((name, context.models.present(name)) for name in context.models.names(self.like))
        # A model may have been dropped between the two looks.
        return pa.Table.from_pylist([row(name, versions) for name, versions in found if versions], SCHEMA)


def row(name: str, versions: Sequence[Version]) -> dict[str, Any]:
    """Tell about the served version, or the newest one without its number where none is served; and how far the newest one has
    come where its training has not ended."""
    version = next((v for v in versions if v.served), versions[-1])
    manifest = version.manifest
    return {
        "name": name,
        "version": version.number if version.served else None,
        "status": manifest.status,
        "algorithm": manifest.algorithm.name,
        "examples": manifest.examples_total,
        "rows": manifest.rows,
        "auc": manifest.metrics.get("auc"),
        "created": manifest.created,
        "progress": progress(versions[-1]),
    }


def progress(newest: Version) -> str | None:
    text = newest.progress
    return None if text is None else f"version {newest.number} {newest.manifest.status}: {text}"


def parse(cursor: Cursor) -> ShowModels:
    return ShowModels(cursor.string("a pattern such as 'click%'") if cursor.accept("LIKE") else None)


SHOW_MODELS = Statement(
    "SHOW MODELS",
    "SHOW MODELS [LIKE 'pattern']",
    "List the models: the version served, the examples it and those before it have learned from, and trainings under way or "
    "interrupted.",
    parse,
)
