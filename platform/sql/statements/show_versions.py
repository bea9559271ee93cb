"""SHOW VERSIONS OF MODEL: every version, whatever became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...training.metrics import headlines
from ...training.metrics.labels import key
from ..base import Statement
from ..cursor import Cursor

if TYPE_CHECKING:
    from ....warehouse.version import Version
    from ..context import StatementContext

SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("status", pa.string()),
        ("served", pa.bool_()),
        ("parent", pa.int64()),
        ("once", pa.string()),
        ("examples", pa.int64()),
        ("rows", pa.int64()),
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

    def run(self, context: StatementContext) -> pa.Table:
        versions = context.models.versions(self.model)
        names = list(dict.fromkeys([*headlines(), *(name for version in versions for name in headlines_of(version))]))
        fields = [(field.name, field.type) for field in SCHEMA]
        at = SCHEMA.names.index("rows") + 1
        schema = pa.schema([*fields[:at], *((name, pa.float64()) for name in names), *fields[at:]])
        return pa.Table.from_pylist([row(version, names) for version in versions], schema)


def headlines_of(version: Version) -> list[str]:
    """Return the metrics shown of a version: the headlines of each label, `auc` of the first and `auc(buy)` of another one."""
    return [key(name, label) for label in (None, *version.manifest.labels[1:]) for name in headlines()]


def row(version: Version, names: Sequence[str]) -> dict[str, Any]:
    manifest = version.manifest
    metrics = {name: manifest.metrics.get(name) for name in names}
    fields = {name: getattr(manifest, name) for name in SCHEMA.names if name not in ("served", "progress", "once")}
    return {**fields, **metrics, "once": manifest.settings.get("once"), "served": version.served, "progress": version.progress}


def parse(cursor: Cursor) -> ShowVersions:
    return ShowVersions(cursor.identifier("a model name"))


SHOW_VERSIONS = Statement(
    "SHOW VERSIONS OF MODEL",
    "SHOW VERSIONS OF MODEL name",
    "List a model's versions: status, metrics and errors.",
    parse,
)
