"""SHOW VERSIONS OF MODEL: every version, whatever became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..base import Statement
from ..cursor import Cursor

if TYPE_CHECKING:
    from ....warehouse.version import Version
    from ..context import Context

SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("status", pa.string()),
        ("served", pa.bool_()),
        ("parent", pa.int64()),
        ("once", pa.string()),
        ("examples", pa.int64()),
        ("rows", pa.int64()),
        ("auc", pa.float64()),
        ("logloss", pa.float64()),
        ("created", pa.timestamp("us", "UTC")),
        ("seconds", pa.float64()),
        ("error", pa.string()),
        ("progress", pa.string()),
    ]
)


@dataclass(frozen=True)
class ShowVersions:
    """The versions of a model, oldest first."""

    model: str

    def run(self, context: Context) -> pa.Table:
        return pa.Table.from_pylist([row(version) for version in context.models.versions(self.model)], SCHEMA)


def row(version: Version) -> dict[str, Any]:
    manifest = version.manifest
    metrics = {name: manifest.metrics.get(name) for name in ("auc", "logloss")}
    fields = {name: getattr(manifest, name) for name in SCHEMA.names if name not in ("served", "progress", "once", *metrics)}
    return {**fields, **metrics, "once": manifest.settings.get("once"), "served": version.served, "progress": version.progress}


def parse(cursor: Cursor) -> ShowVersions:
    return ShowVersions(cursor.identifier("a model name"))


SHOW_VERSIONS = Statement(
    "SHOW VERSIONS OF MODEL",
    "SHOW VERSIONS OF MODEL name",
    "List a model's versions: status, metrics and errors.",
    parse,
)
