"""The progress of a training: one JSON line per evaluation, readable by others while it is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..durable import own, storing

FILE = "progress.jsonl"
READING = ("read", "encode", "read_wait")
LEARNING = ("input_wait", "pace_wait", "pull", "compute", "push", "count")


def progress_columns(metrics: Iterable[str]) -> dict[str, pa.DataType]:
    """Return the columns of ML.TRAINING_INFO.

    A line with a `window` is of a window of EVALUATE, one with a `segment` of a value of its BY column, one with `validation`
    of the rows held out, after a pass; examples are those measured. Where there are several labels, each has a line, and the
    first's has the numbers of no label. Seconds are of all workers since the training began, by step. One with
    `recovery_seconds` is of a recovery from a lost task. `lag_rows` and `lag_seconds` are of a resident training: how far it
    was behind its stream. A training may add numbers of its own.

    Args:
        metrics: the names of the metrics of predictions.
    """
    return {
        "version": pa.int64(),
        "time": pa.timestamp("us", "UTC"),
        "batch": pa.int64(),
        "examples": pa.int64(),
        "pass": pa.int64(),
        "split": pa.int64(),
        "window": pa.int64(),
        "segment": pa.string(),
        "label": pa.string(),
        "validation": pa.bool_(),
        **dict.fromkeys(metrics, pa.float64()),
        **dict.fromkeys(("max_weight", "min_weight", "max_abs_weight"), pa.float64()),
        "features": pa.int64(),
        "memory_bytes": pa.int64(),
        "violations": pa.float64(),
        "examples_per_second": pa.float64(),
        **dict.fromkeys((f"{step}_seconds" for step in (*READING, *LEARNING)), pa.float64()),
        "compilations": pa.int64(),
        "compile_seconds": pa.float64(),
        "recoveries": pa.int64(),
        "recovery_seconds": pa.float64(),
        "lag_rows": pa.int64(),
        "lag_seconds": pa.float64(),
    }


def append_progress(folder: Path, values: Mapping[str, Any]) -> None:
    """Add one line, with the time where `values` has none; readers see it when this returns."""
    path = folder / FILE
    line = json.dumps({"time": now_text(), **values}) + "\n"
    with storing(path), own(path).open("a", encoding="utf-8") as file:
        file.write(line)


def now_text() -> str:
    """Return the time as a line has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read_progress(folder: Path) -> list[dict[str, Any]]:
    """Read the lines written so far, oldest first.

    A last line that is not whole yet, or was cut by a kill, is left out, and so is what a power cut made of lines: zeros.
    """
    path = folder / FILE
    if not path.exists():
        return []
    read = (_line(line) for line in path.read_bytes().split(b"\n")[:-1])
    return [line for line in read if line is not None]


def _line(text: bytes) -> dict[str, Any] | None:
    try:
        values = json.loads(text.lstrip(b"\0"))
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def mend_progress(folder: Path, goes_on: bool) -> None:
    """Remove a last line that a kill has cut, so that more lines can be added; all of them where the training begins again."""
    path = folder / FILE
    if path.exists():
        with storing(path), path.open("rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1 if goes_on else 0)


def latest(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop lines of windows and validations that a replay has measured again."""
    last = {place(line): number for number, line in enumerate(lines)}
    replaced = ("window", "validation")
    return [line for n, line in enumerate(lines) if not any(name in line for name in replaced) or last[place(line)] == n]


def place(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(line.get(name) for name in ("pass", "split", "window", "segment", "label", "validation"))


def progress_table(versions: Iterable[tuple[int, Path]], columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the progress of versions (number, folder): some columns, then those that a training added."""
    rows = [{**line, "version": number} for number, folder in versions for line in latest(read_progress(folder))]
    for row in rows:
        row["time"] = datetime.fromisoformat(row["time"])
    more = dict.fromkeys(name for row in rows for name in row if name not in columns)
    schema = pa.schema([*columns.items(), *((name, pa.float64()) for name in more)])
    return pa.Table.from_pylist(rows, schema)
