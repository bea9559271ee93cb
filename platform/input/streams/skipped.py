"""Messages that are no rows, written down beside the version that passed over them.

v<N>/skipped/<topic>-<partition>-<start>.jsonl    a file for each range that has any, a line for each message
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ....warehouse.durable import make_folder, replace_text
from ....warehouse.manifest import MessageRange

SKIPPED = "skipped"
"""The folder."""


class Skipped(NamedTuple):
    """A message that is no row: its offset, and why."""

    offset: int
    reason: str


def note(folder: Path, wanted: MessageRange, skipped: Sequence[Skipped]) -> None:
    """Write down the messages of a range that are no rows; whoever reads the range again writes the same.

    Raises:
        ModelError: it cannot be written.
    """
    place = {"topic": wanted.topic, "partition": wanted.partition}
    lines = [json.dumps({**place, "offset": one.offset, "reason": one.reason}) for one in skipped]
    make_folder(folder / SKIPPED)
    replace_text(folder / SKIPPED / f"{wanted.topic}-{wanted.partition}-{wanted.start}.jsonl", "\n".join(lines) + "\n")


def num_skipped(folder: Path) -> int:
    """Return how many messages are written down beside a version."""
    return sum(path.read_bytes().count(b"\n") for path in (folder / SKIPPED).glob("*.jsonl"))
