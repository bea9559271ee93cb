"""The write-ahead log of a version that learns from a stream: segments, each a list of splits, written before they are learned.

    v<N>/segments.jsonl    a line for each segment, in order of learning

    v<N>/passed.json       how far beyond the version's position a stream was read that had no rows to learn from

A stream grows while it is read, so what a training takes of it is settled here first: a line is on the disk before its splits
are dealt to workers, and RESUME learns from these and no others. A line that a kill has cut was not dealt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...platform.errors import ModelError
from ..durable import creating, own, replace_text, storing
from ..entries import RowGroup, Split, record
from ..manifest import FORMAT, read_json
from ..message_ranges import MessageRange, MessageRanges

FILE = "segments.jsonl"
PASSED = "passed.json"


def append_segment(folder: Path, splits: Sequence[Split]) -> None:
    """Add a segment to the log of a version; it is durable when this returns.

    Raises:
        ModelError: it cannot be written.
    """
    path = folder / FILE
    line = json.dumps({"splits": splits}, default=vars) + "\n"
    with creating(path), own(path).open("a", encoding="utf-8") as file:
        file.write(line)


def read_segments(folder: Path) -> list[list[Split]]:
    """Return the segments of a version; a last line that is not whole is none.

    Raises:
        ModelError: they are damaged.
    """
    path = folder / FILE
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    try:
        return [[split_of(values) for values in json.loads(line)["splits"]] for line in lines]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path} is damaged ({error!r}). Restore it from a backup, or drop the model.") from error


def split_of(values: Mapping[str, Any]) -> Split:
    """Return a split that a line has, by the fields of its kind."""
    if "ranges" in values:
        return record(MessageRanges, values)
    return record(MessageRange, values) if "topic" in values else record(RowGroup, values)


def mend_segments(folder: Path) -> None:
    """Remove a last line that a kill has cut, so that more lines can be added."""
    path = folder / FILE
    if path.exists():
        with storing(path), own(path).open("rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)


def write_passed(folder: Path, positions: Mapping[str, Mapping[str, Any]]) -> None:
    """Record the positions up to which streams had nothing to learn after a version; the version itself does not change.

    Raises:
        ModelError: it cannot be written.
    """
    replace_text(folder / PASSED, json.dumps({"format": FORMAT, "position": positions}))


def read_passed(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return what write_passed has kept; nothing where it has not.

    Raises:
        ModelError: it is damaged, or of a newer format.
    """
    try:
        return dict(read_json(folder / PASSED)["position"])
    except FileNotFoundError:
        return {}
