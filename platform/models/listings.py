"""The models of a warehouse and their versions as tables: what SHOW MODELS, SHOW VERSIONS and their table functions give."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import ModelError
from ..training.metrics import headlines
from ..training.metrics.gate import VALIDATION
from ..training.metrics.labels import key
from ..training.metrics.measured import MEASURED_ON, measured_on
from ..training.provenance.chosen import decided

if TYPE_CHECKING:
    from ...warehouse.manifest import Manifest
    from ...warehouse.models import Models
    from ...warehouse.version import Version

MODELS = pa.schema(
    [
        ("name", pa.string()),
        ("version", pa.int64()),
        ("status", pa.string()),
        ("algorithm", pa.string()),
        ("examples", pa.int64()),
        ("features", pa.int64()),
        ("auc", pa.float64()),
        ("measured_on", pa.string()),
        ("created", pa.timestamp("us", "UTC")),
        ("progress", pa.string()),
    ]
)

RESIDENTS = pa.schema(
    [
        ("model", pa.string()),
        ("state", pa.string()),
        ("stream", pa.string()),
        ("version", pa.int64()),
        ("published", pa.timestamp("us", "UTC")),
        ("versions", pa.int64()),
        ("examples", pa.int64()),
        ("examples_per_second", pa.float64()),
        ("lag_rows", pa.int64()),
        ("lag_seconds", pa.float64()),
        ("process", pa.int64()),
        ("host", pa.string()),
    ]
)

VERSIONS = pa.schema(
    [
        ("version", pa.int64()),
        ("status", pa.string()),
        ("served", pa.bool_()),
        ("parent", pa.int64()),
        ("base", pa.int64()),
        ("once", pa.string()),
        ("examples", pa.int64()),
        ("features", pa.int64()),
        ("bytes", pa.int64()),
        ("batch_size", pa.int64()),
        ("created", pa.timestamp("us", "UTC")),
        ("seconds", pa.float64()),
        ("error", pa.string()),
        ("reason", pa.string()),
        ("progress", pa.string()),
    ]
)


def models_table(models: Models, like: str | None) -> pa.Table:
    """Return a row for each model whose name matches a pattern."""
    found = ((name, models.shown(name)) for name in models.names(like))
    # A model may have been dropped between the two looks.
    rows = [row_of_model(models, name, versions) for name, versions in found if versions]
    return pa.Table.from_pylist(rows, MODELS)


def row_of_model(models: Models, name: str, versions: Sequence[Version]) -> dict[str, Any]:
    """Describe the served version, or the newest one without its number where none is served; also the progress of an
    unfinished training, and the lag of a resident one."""
    resident = models.residence(name).status()
    version = next((v for v in versions if v.served), versions[-1])
    manifest = version.manifest
    return {
        "name": name,
        "version": version.number if version.served else None,
        "status": manifest.status,
        "algorithm": manifest.algorithm.name,
        "examples": manifest.learned.examples_total,
        "features": manifest.learned.rows,
        "auc": manifest.metrics.get("auc"),
        "measured_on": measured_on(manifest),
        "created": manifest.created,
        "progress": progress(versions[-1]) if resident is None else resident.text,
    }


def reason(manifest: Manifest) -> str | None:
    """Return why a version is not ready: an error, or the gate that holds it, whose learning is then in no line."""
    if manifest.status != "held":
        return manifest.error
    why = manifest.error or "its condition of RELEASE was false"
    return f"{why}; CONTINUE starts without what it learned, but FROM VERSION {manifest.version} or after its promotion"


def residents_table(models: Models, name: str | None) -> pa.Table:
    """Return a row for each resident training: of one model, or of all where None."""
    found = ((one, models.residence(one).status()) for one in ([name] if name is not None else models.names()))
    rows = [{"model": one, **vars(status)} for one, status in found if status is not None]
    for row in rows:
        row["published"] = None if row["published"] is None else datetime.fromtimestamp(row["published"], UTC)
    return pa.Table.from_pylist(rows, RESIDENTS)


def progress(newest: Version) -> str | None:
    text = newest.progress
    return None if text is None else f"version {newest.number} {newest.manifest.status}: {text}"


def versions_table(versions: Sequence[Version], with_model: bool) -> pa.Table:
    """Return a row for each version, with the headline metrics of its labels; the model's name comes first if wanted."""
    names = list(dict.fromkeys([*headlines(), *(name for version in versions for name in headlines_of(version))]))
    fields = [(field.name, field.type) for field in VERSIONS]
    at = VERSIONS.names.index("bytes") + 1
    listed, counted = [], set[Path]()
    model = [("model", pa.string())] if with_model else []
    schema = pa.schema([*model, *fields[:at], *((name, pa.float64()) for name in names), MEASURED_ON, *fields[at:]])
    for version in versions:
        row = row_of_version(version, names)
        listed.append({"model": version.manifest.model, **row, "bytes": bytes_of(version, counted)})
    return pa.Table.from_pylist(listed, schema)


def bytes_of(version: Version, counted: set[Path]) -> int | None:
    """Return the bytes of a version's files, and of the files of dropped versions that it still reads.

    Args:
        counted: files that others count, to which these are added.
    """
    if version.manifest.status not in ("ready", "held"):
        return None
    with contextlib.suppress(ModelError, OSError):
        new = {part.path: part for part in (*version.everything(), *version.beneath()) if part.path not in counted}
        counted |= new.keys()
        return sum(part.size for part in new.values())
    return None  # CHECK MODEL reports what is wrong


def headlines_of(version: Version) -> list[str]:
    """Return the metrics shown of a version: the headlines of each label, `auc` of the first and `auc(buy)` of another one."""
    names = [key(name, label) for label in (None, *version.manifest.roles.labels[1:]) for name in headlines()]
    return [*names, *(f"{VALIDATION}{name}" for name in names if version.manifest.validation)]


def row_of_version(version: Version, names: Sequence[str]) -> dict[str, Any]:
    manifest = version.manifest
    validation = {f"{VALIDATION}{name}": value for name, value in manifest.validation.items()}
    metrics = {name: {**manifest.metrics, **validation}.get(name) for name in names}
    fields = {name: getattr(manifest, name, None) for name in VERSIONS.names}
    return {
        **fields,
        **metrics,
        MEASURED_ON.name: measured_on(manifest),
        "error": None if manifest.status == "held" else manifest.error,
        "reason": reason(manifest),
        "examples": manifest.learned.examples,
        "features": manifest.learned.rows,
        "batch_size": decided(manifest.sizes).get("batch_size"),
        "once": None if (once := manifest.settings.get("once")) is None else str(once),
        "served": version.served,
        "progress": version.progress,
    }
