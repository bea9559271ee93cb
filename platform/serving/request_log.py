"""A sample of scored requests as Parquet, for ML.REPLAY and as training data: a folder per model."""

from __future__ import annotations

import queue
import random
import secrets
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ..engines.repeats import expanded
from ..spark_types import TIMESTAMP
from .keys import keys_of
from .loaded import Loaded

AT, KEYS_COLUMN, PREDICTION, LATENCY = "served_at", "served_keys", "served_prediction", "served_latency_seconds"
MODEL, VERSION = "served_model", "served_version"
WAITING = 256
"""The most requests that wait to be written; further ones are not logged."""
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


class RequestLog:
    """Writes a fraction of requests: their columns in the model's types, keys, prediction, version, time and latency.

    `<folder>/served_model=<model>/served_version=<n>/<time>-<random>.parquet`; a file appears whole. Its own thread does it.

    Args:
        fraction: of the requests, drawn at random, in [0, 1].
        report: called with each problem, a line of text.
    """

    def __init__(self, folder: Path, fraction: float, report: Callable[[str], None]) -> None:
        self._folder, self._fraction, self._report = folder, fraction, report
        self._entries: queue.Queue[Entry | None] = queue.Queue(WAITING)
        self._kept: dict[Loaded, list[pa.Table]] = {}
        self._rows = self._bytes = 0
        self._since = time.monotonic()
        self._draw = random.Random()
        self.left_out = 0
        self._thread = threading.Thread(target=self._run, name="xpsql serve: log", daemon=True)

    def start(self) -> None:
        """Begin to write.

        Raises:
            OSError: the folder cannot be made.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def offer(
        self, loaded: Loaded, table: Callable[[], pa.Table], predictions: dict[str, pa.Array], latency_seconds: float
    ) -> None:
        """Log a scored request, or drop it; never waits.

        Args:
            table: gives its rows, in the columns of the version.
        """
        if self._draw.random() >= self._fraction:
            return
        try:
            self._entries.put_nowait(Entry(loaded, table, predictions, datetime.now(UTC), latency_seconds))
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
            try:
                entry = self._entries.get(timeout=SECONDS)
                ended = entry is None
                if entry is not None and (rows := rows_of(entry)).num_rows:
                    self._kept.setdefault(entry.loaded, []).append(rows)
                    self._rows, self._bytes = self._rows + rows.num_rows, self._bytes + rows.nbytes
            except queue.Empty:
                pass
            except Exception as error:  # of one request: others are logged
                self._report(f"A request was not logged: {type(error).__name__}: {error}")
            old = time.monotonic() - self._since >= SECONDS
            if ended or old or self._rows >= ROWS or self._bytes >= BYTES:
                self._write()

    def _write(self) -> None:
        for loaded, tables in self._kept.items():
            try:
                write(self._folder / f"{MODEL}={loaded.model}" / f"{VERSION}={loaded.number}", tables)
            except (OSError, pa.ArrowException) as error:
                self._report(f"Requests for {loaded.model} were not logged in {self._folder}: {error}")
        self._kept, self._rows, self._bytes, self._since = {}, 0, 0, time.monotonic()


def rows_of(entry: Entry) -> pa.Table:
    """Return a request as rows of the log."""
    loaded, table = entry.loaded, expanded(entry.table())
    count = table.num_rows
    columns = {column.name: plain(table.column(column.name)) for column in loaded.inputs}
    added = {
        AT: pa.repeat(pa.scalar(entry.at, TIMESTAMP), count),
        KEYS_COLUMN: keys_of(loaded.features(table), loaded.columns),
        PREDICTION: prediction_of(entry.predictions),
        LATENCY: pa.repeat(pa.scalar(entry.latency_seconds), count),
    }
    schema = [*((column.name, column.type) for column in loaded.inputs), *((name, found.type) for name, found in added.items())]
    return pa.table([*columns.values(), *added.values()], schema=pa.schema(schema))


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(column.type):
        return column
    return pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], column.type.value_type)


def prediction_of(predictions: dict[str, pa.Array]) -> pa.Array:
    """Return predictions as one column: DOUBLE, or an array of them where a row has several."""
    columns = list(predictions.values())
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
