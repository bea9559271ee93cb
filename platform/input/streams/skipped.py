"""Undecodable input (dead letters), recorded beside the version that skipped it.

v<N>/skipped/<topic>-<partition>-<start>.jsonl    a file for each split that has any, a line for each message
v<N>/skipped/<file>-<modified>.jsonl               the same for lines of a file
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ....warehouse.durable import make_folder, replace_text

SKIPPED = "skipped"
"""The folder."""


class Skipped(NamedTuple):
    """Skipped input: the offset of a message, or the number of a line, from 1; why; and a message's partition."""

    offset: int
    reason: str
    partition: int | None = None


def note(folder: Path, name: str, place: Mapping[str, Any], skipped: Sequence[Skipped]) -> None:
    """Record the skipped input of a split; reading it again writes the same.

    Args:
        name: of the file.
        place: what each line has beside the partition and the offset, or the number of the line, and the reason.

    Raises:
        ModelError: it cannot be written.
    """

    def where(one: Skipped) -> dict[str, int]:
        return {"line": one.offset} if one.partition is None else {"partition": one.partition, "offset": one.offset}

    lines = [json.dumps({**place, **where(one), "reason": one.reason}) for one in skipped]
    make_folder(folder / SKIPPED)
    replace_text(folder / SKIPPED / f"{name}.jsonl", "\n".join(lines) + "\n")


def num_skipped(folder: Path) -> int:
    """Return how many skipped inputs are recorded beside a version."""
    return sum(path.read_bytes().count(b"\n") for path in (folder / SKIPPED).glob("*.jsonl"))
