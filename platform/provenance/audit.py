"""The audit log of a warehouse: who changed what, a line for each statement, chained by digests.

`audit.jsonl` grows by whole lines under a lock, durable before the statement ends. Each has the SHA-256 of the line before, so
that one that is changed or taken out in the middle is noticed: ML.AUDIT says which. A line that was cut off by a crash is
removed by the next.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from ...warehouse.durable import storing
from ..errors import XpsqlError
from ..quoting import masked
from .shown import sha256

if TYPE_CHECKING:
    from ...warehouse.catalog import Catalog

FILE = "audit.jsonl"
FIRST = "0" * 64
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("user", pa.string()),
        ("host", pa.string()),
        ("pid", pa.int64()),
        ("statement", pa.string()),
        ("model", pa.string()),
        ("served_before", pa.int64()),
        ("served_after", pa.int64()),
        ("newest", pa.int64()),
        ("error", pa.string()),
        ("intact", pa.bool_()),
    ]
)


@contextmanager
def audited(models: Catalog, text: str, model: str | None, note: Callable[[str], None]) -> Iterator[None]:
    """Record a statement that the block runs, also one that fails.

    Args:
        model: that it names, if any.
        note: is told of a log that cannot be written: the statement has run.
    """
    before, error = served(models, model), None
    try:
        yield
    except BaseException as raised:
        error = f"{type(raised).__name__}: {raised}"
        raise
    finally:
        try:
            append(
                models.warehouse,
                {
                    **who(),
                    "statement": masked(text),
                    "model": model,
                    **after(models, model, before),
                    "error": error and masked(error),
                },
            )
        except (XpsqlError, OSError) as problem:
            note(f"The audit log was not written: {problem}")


def served(models: Catalog, model: str | None) -> int | None:
    return None if model is None or not models.exists(model) else models.served(model)


def after(models: Catalog, model: str | None, before: int | None) -> dict[str, int | None]:
    """Return which version of a model was served, and is, and which is the newest."""
    there = [] if model is None else models.present(model)
    newest = max((version.number for version in there), default=None)
    return {"served_before": before, "served_after": served(models, model), "newest": newest}


def who() -> dict[str, Any]:
    """Return when a statement ended, and who ran it where."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return {"time": datetime.now(UTC).isoformat(), "user": user, "host": socket.gethostname(), "pid": os.getpid()}


def append(warehouse: Path, values: dict[str, Any]) -> None:
    """Add a line.

    Raises:
        ModelError: the disk is full, or the warehouse is not writable.
    """
    path = warehouse / FILE
    with storing(path):
        warehouse.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # given back as the file is closed
            last = last_line(file)
            line = json.dumps({**values, "previous": FIRST if last is None else sha256(last)}, default=str)
            file.seek(0, os.SEEK_END)
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def last_line(file: BinaryIO) -> bytes | None:
    """Return the last whole line, None of an empty file, and cut off what follows it."""
    size, tail = file.seek(0, os.SEEK_END), b""
    at = size
    while at and tail.count(b"\n") < 2:
        step = min(at, 1 << 16)
        at -= step
        file.seek(at)
        tail = file.read(step) + tail
    whole = tail.rfind(b"\n") + 1
    if whole < len(tail):
        file.truncate(at + whole)
    lines = tail[:whole].split(b"\n")
    return lines[-2] if len(lines) > 1 else None


def read(warehouse: Path) -> pa.Table:
    """Return the lines; `intact` says that a line is readable, and goes on from the one before."""
    path, rows, previous = warehouse / FILE, [], FIRST
    content = path.read_bytes() if path.exists() else b""
    for line in content.split(b"\n")[:-1]:
        row = parsed(line)
        rows.append({**row, "intact": bool(row) and row.pop("previous", None) == previous})
        previous = sha256(line)
    return pa.Table.from_pylist(rows, SCHEMA)


def parsed(line: bytes) -> dict[str, Any]:
    """Return the values of a line; none of one that is damaged."""
    try:
        row = dict(json.loads(line))
        row["time"] = datetime.fromisoformat(row["time"])
        pa.Table.from_pylist([{name: row.get(name) for name in SCHEMA.names}], SCHEMA)
    except (ValueError, TypeError, KeyError, RecursionError, pa.ArrowException):
        return {}
    return row
