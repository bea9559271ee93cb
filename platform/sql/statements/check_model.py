"""CHECK MODEL: verify the checksums of all files of a model's versions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ....warehouse.folders import UNREADABLE
from ....warehouse.rows import reading
from ...errors import ModelError
from ..base import Statement
from ..cursor import Cursor
from ..versions import NamedVersion, read_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ....warehouse.checksums import VersionFile
    from ....warehouse.version import Version
    from ..context import Context

WHOLE, DAMAGED = "whole", "damaged"

SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("file", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("state", pa.string()),
        ("reason", pa.string()),
    ]
)


@dataclass(frozen=True)
class CheckModel:
    """Every file of a version, or of all that are ready or held, read and compared with its checksums."""

    named: NamedVersion

    def run(self, context: Context) -> pa.Table:
        model, number = self.named
        chosen = [v for v in context.models.versions(model) if number is None or v.number == number]
        if number is not None and not chosen:
            context.models.find(model, number)  # raises the error for a missing version
        seen: set[Path] = set()
        return pa.Table.from_pylist([row for version in chosen for row in rows_of(version, number is not None, seen)], SCHEMA)


def rows_of(version: Version, alone: bool, seen: set[Path]) -> Iterator[dict[str, Any]]:
    """Yield the state of each file of a version; for a damaged manifest, only that.

    Args:
        alone: files include files of other versions that it is read from; else only of dropped versions.
        seen: files checked so far, to which these are added.
    """
    manifest = version.manifest
    if manifest.status in UNREADABLE:
        yield {"version": version.number, "file": "manifest.json", "state": manifest.status, "reason": manifest.error}
    if manifest.status not in ("ready", "held"):
        return
    try:
        beneath = version.beneath(alone)
    except ModelError as error:
        beneath = []
        yield {"version": version.number, "file": "manifest.json", "state": DAMAGED, "reason": str(error)}
    for part in (*version.everything(), *beneath):
        if part.path in seen:
            continue
        seen.add(part.path)
        name = os.path.relpath(part.path, version.folder)
        known = None if part.file is None else part.file.rows or None
        yield {"version": version.number, "file": name, "rows": known, **found(part)}


def found(part: VersionFile) -> dict[str, Any]:
    """Return the bytes of a file and in which state they are."""
    try:
        with reading(part.path):
            size = part.check()
    except ModelError as error:
        return {"state": DAMAGED, "reason": str(error)}
    return {"bytes": size, "state": WHOLE}


def parse(cursor: Cursor) -> CheckModel:
    return CheckModel(read_version(cursor))


CHECK_MODEL = Statement(
    "CHECK MODEL",
    "CHECK MODEL name [VERSION n]",
    "Verify all files of a model, or of one version, against their checksums.",
    parse,
)
