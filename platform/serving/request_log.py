"""A sample of scored requests as Parquet, for ML.REPLAY and as training data: a folder per model."""

from __future__ import annotations

import queue
import random
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..engines.repeats import expanded
from ..spark_types import TIMESTAMP
from .explore import Choice
from .keys import keys_of
from .live_drift import LiveDrift
from .loaded import Loaded

AT, KEYS_COLUMN, PREDICTION, LATENCY = "served_at", "served_keys", "served_prediction", "served_latency_seconds"
MODEL, VERSION = "served_model", "served_version"
REQUEST, CHOSEN, PROPENSITY = "served_request", "served_chosen", "served_propensity"
WAITING = 256
"""The most requests that wait to be written; further ones are not logged."""
TOGETHER = 64
"""The most requests whose keys are computed at once."""
ROWS, BYTES, SECONDS = 100_000, 1 << 26, 60.0
"""A file is written for so many rows or bytes, or when its first ones are so old."""
STOP_SECONDS = 30.0


class Entry(NamedTuple):
    """A scored request."""

    loaded: Loaded
    table: Callable[[], pa.Table]
    predictions: dict[str, pa.Array]
    at: datetime
    latency_seconds: float
    choice: Choice | None


class RequestLog:
    """Writes a fraction of requests: their columns in the model's types, keys, prediction, version, time and latency.

    Of a service that explores it writes every request that chose, with its id, what was chosen, and the propensity of each
    candidate.

    `<folder>/served_model=<model>/served_version=<n>/<time>-<random>.parquet`; a file appears whole. Its own thread does it.

    Args:
        fraction: of the requests, drawn at random, in [0, 1].
        report: called with each problem, a line of text.
        explores: the service does.

    Attributes:
        drift: of the rows that are logged.
    """

    def __init__(self, folder: Path, fraction: float, report: Callable[[str], None], explores: bool = False) -> None:
        self._folder, self._fraction, self._report, self._explores = folder, fraction, report, explores
        self._entries: queue.Queue[Entry | None] = queue.Queue(WAITING)
        self._kept: dict[Loaded, list[pa.Table]] = {}
        self._rows = self._bytes = 0
        self._since = time.monotonic()
        self.drift = LiveDrift()
        self._draw = random.Random()
        self.left_out = self._told = 0
        self._thread = threading.Thread(target=self._run, name="xpsql serve: log", daemon=True)

    def start(self) -> None:
        """Begin to write.

        Raises:
            OSError: the folder cannot be made.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def offer(
        self,
        loaded: Loaded,
        table: Callable[[], pa.Table],
        predictions: dict[str, pa.Array],
        latency_seconds: float,
        choice: Choice | None,
    ) -> None:
        """Log a scored request, or drop it; never waits.

        Args:
            table: gives its rows, in the columns of the version.
        """
        if choice is None and self._draw.random() >= self._fraction:
            return
        try:
            self._entries.put_nowait(Entry(loaded, table, predictions, datetime.now(UTC), latency_seconds, choice))
        except queue.Full:
            self.left_out += 1

    def stop(self) -> None:
        """Write the pending requests, and end."""
        if self._thread.is_alive():
            self._entries.put(None, timeout=STOP_SECONDS)
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        ended = False
        while not ended:
            taken = self._taken()
            ended = taken[-1:] == [None]
            waiting: dict[Loaded, list[Entry]] = {}
            for entry in taken:
                if entry is not None:
                    waiting.setdefault(entry.loaded, []).append(entry)
            for entries in waiting.values():
                self._keep(entries)
            old = time.monotonic() - self._since >= SECONDS
            if ended or old or self._rows >= ROWS or self._bytes >= BYTES:
                self._write()

    def _taken(self) -> list[Entry | None]:
        """Return what waits to be written, at once: keys of many requests cost little more than those of one."""
        taken = list[Entry | None]()
        try:
            taken.append(self._entries.get(timeout=SECONDS))
            while taken[-1] is not None and len(taken) < TOGETHER:
                taken.append(self._entries.get_nowait())
        except queue.Empty:
            pass
        return taken

    def _keep(self, entries: list[Entry]) -> None:
        """Keep the rows of requests for one version until they are written; where they fail together, each by itself."""
        try:
            rows = rows_of(entries, self._explores)
        except Exception as error:  # of one request: others are logged
            if len(entries) > 1:
                for entry in entries:
                    self._keep([entry])
            else:
                self._report(f"A request was not logged: {type(error).__name__}: {error}")
            return
        if rows.num_rows:
            self._kept.setdefault(entries[0].loaded, []).append(rows)
            self._rows, self._bytes = self._rows + rows.num_rows, self._bytes + rows.nbytes

    def _write(self) -> None:
        if self.left_out > self._told:
            self._report(f"{self.left_out - self._told:,} requests were not logged: they came faster than the log takes them.")
            self._told = self.left_out
        for loaded, tables in self._kept.items():
            self._watch(loaded, tables)
            try:
                write(self._folder / f"{MODEL}={loaded.model}" / f"{VERSION}={loaded.number}", tables)
            except (OSError, pa.ArrowException) as error:
                self._report(f"Requests for {loaded.model} were not logged in {self._folder}: {error}")
        self._kept, self._rows, self._bytes, self._since = {}, 0, 0, time.monotonic()

    def _watch(self, loaded: Loaded, tables: list[pa.Table]) -> None:
        """Fold rows into the drift of their version; what goes wrong there keeps none from the log."""
        try:
            rows = pa.concat_tables(tables)
            said = rows[PREDICTION].combine_chunks()
            width = 1 if rows.num_rows == 0 or not pa.types.is_list(said.type) else len(said[0])
            values = said.flatten() if pa.types.is_list(said.type) else said
            predictions = values.to_numpy(zero_copy_only=False).astype(np.float32).reshape(-1, width).T
            self.drift.add(loaded, rows.select([column.name for column in loaded.inputs]), predictions)
        except Exception as error:
            self._report(f"The drift of {loaded.model} v{loaded.number} is not known: {type(error).__name__}: {error}")


def rows_of(entries: Sequence[Entry], explores: bool) -> pa.Table:
    """Return requests for one version as rows of the log.

    Args:
        explores: with the columns of a choice, NULL where there is none.
    """
    loaded, tables = entries[0].loaded, [expanded(entry.table()) for entry in entries]
    columns = {
        column.name: pa.chunked_array(
            [chunk for table in tables for chunk in plain(table.column(column.name)).chunks], column.type
        )
        for column in loaded.inputs
    }
    served = [served_columns(entry, table.num_rows, explores) for entry, table in zip(entries, tables, strict=True)]
    names, own = list(served[0]), pa.table(columns)
    added = {name: pa.chunked_array([part[name] for part in served]) for name in names}
    added[KEYS_COLUMN] = keys_of(loaded.features(own), loaded.columns)
    return pa.table({**columns, **{name: added[name] for name in (AT, KEYS_COLUMN, *names[1:])}})


def served_columns(entry: Entry, count: int, explores: bool) -> dict[str, pa.Array]:
    """Return what the log says of a request of so many rows, beside keys."""
    return {
        AT: pa.repeat(pa.scalar(entry.at, TIMESTAMP), count),
        PREDICTION: prediction_of([entry.predictions[field.name] for field in entry.loaded.predictions]),
        LATENCY: pa.repeat(pa.scalar(entry.latency_seconds), count),
        **(choice_of(entry.choice, count) if explores else {}),
    }


def choice_of(choice: Choice | None, count: int) -> dict[str, pa.Array]:
    """Return the columns of a choice among so many rows."""
    if choice is None:
        return {
            REQUEST: pa.nulls(count, pa.string()),
            CHOSEN: pa.nulls(count, pa.bool_()),
            PROPENSITY: pa.nulls(count, pa.float64()),
        }
    return {
        REQUEST: pa.repeat(pa.scalar(choice.request), count),
        CHOSEN: pa.array(np.arange(count) == choice.place),
        PROPENSITY: pa.array(choice.propensities),
    }


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(column.type):
        return column
    return pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], column.type.value_type)


def prediction_of(columns: list[pa.Array]) -> pa.Array:
    """Return predictions as one column: DOUBLE, or an array of them where a row has several."""
    if pa.types.is_map(columns[-1].type):  # of classes, in their order
        offsets = columns[-1].offsets
        return pa.ListArray.from_arrays(offsets, columns[-1].items)
    if len(columns) == 1 and not pa.types.is_fixed_size_list(columns[0].type):
        return columns[0]
    if len(columns) == 1:
        return columns[0].cast(pa.list_(pa.float64()))
    rows = [list(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]
    return pa.array(rows, pa.list_(pa.float64()))


def write(folder: Path, tables: list[pa.Table]) -> None:
    """Write tables of one schema as a file, which appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}.parquet"
    begun = folder / f".{name}"
    pq.write_table(pa.concat_tables(tables), begun, compression="zstd")
    begun.replace(folder / name)
