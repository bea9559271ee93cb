"""The progress of a training: one JSON line per evaluation, readable by others while it is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .durable import storing

FILE = "progress.jsonl"


def append_progress(folder: Path, values: Mapping[str, Any]) -> None:
    """Add one line, with the time where `values` has none; readers see it when this returns."""
    path = folder / FILE
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = json.dumps({"time": now, **values}) + "\n"
    with storing(path), path.open("a", encoding="utf-8") as file:
        file.write(line)


def read_progress(folder: Path) -> list[dict[str, Any]]:
    """Read the lines written so far, oldest first; a last line that is not whole yet, or was cut by a kill, is left out."""
    path = folder / FILE
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]
