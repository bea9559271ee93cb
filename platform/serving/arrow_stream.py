"""Requests and answers as Arrow IPC streams."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from ..spark_types import type_words
from .inputs import Input, by_lower_name
from .refusal import RequestError, RequestLimits

CONTENT_TYPE = "application/vnd.apache.arrow.stream"
MOST_SCHEMAS = 64
UNREADABLE = (RequestError, pa.ArrowException, OSError, ValueError, struct.error, IndexError, TypeError, KeyError)
RECORD_BATCH, DICTIONARY_BATCH = 3, 2  # of the union MessageHeader in Arrow's format/Message.fbs


class ArrowStream(NamedTuple):
    """The batches of a stream, and which of their columns each input is; None where these are not of the inputs' types."""

    schema: pa.Schema
    batches: list[pa.RecordBatch]
    order: tuple[int, ...] | None

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


class StreamReader:
    """Reads the streams of requests for a version; it caches what it finds about a schema, since clients repeat theirs. Threads
    may share it.

    Args:
        inputs: the version's columns.
    """

    def __init__(self, inputs: Sequence[Input]) -> None:
        self._inputs = inputs
        self._orders: dict[bytes, tuple[int, ...] | None] = {}

    def read(self, body: bytes, limits: RequestLimits) -> ArrowStream:
        """Return a stream whose batches have enough memory for their declared lengths; offsets are not checked.

        Raises:
            RequestError: it is not such a stream, or compressed, or has too many rows.
        """
        try:
            check(body, limits)
            with pa.ipc.open_stream(body) as reader:
                schema, batches = reader.schema, list(reader)
                for batch in batches:
                    batch.validate()
            return ArrowStream(schema, batches, self._order(body, schema))  # names of columns may be no UTF-8
        except UNREADABLE as error:
            raise unreadable(error) from error

    def table(self, stream: ArrowStream) -> pa.Table:
        """Return the rows of a stream as the columns of the version.

        Raises:
            RequestError: the stream is damaged, lacks a column, or has values that are none of a column's type.
        """
        try:
            own = by_lower_name(stream.schema.names)
            for batch in stream.batches:
                batch.validate(full=True)  # offsets may lead anywhere
            found = pa.Table.from_batches(stream.batches, stream.schema)
        except UNREADABLE as error:
            raise unreadable(error) from error
        arrays = []
        for column in self._inputs:
            name = own.get(column.name.lower())
            if name is None or found.schema.names.count(name) > 1:
                problem = "lacks" if name is None else "has twice"
                raise RequestError(400, f"The stream {problem} the column {column.name} ({type_words(column.type)}).")
            chunks = [column.cast(chunk) for chunk in one_type(found.column(name)).chunks]
            arrays.append(pa.chunked_array(chunks, None if chunks else column.type))
        return pa.table(arrays, names=[column.name for column in self._inputs])

    def _order(self, body: bytes, schema: pa.Schema) -> tuple[int, ...] | None:
        schema_bytes = body[: 8 + struct.unpack_from("<I", body, 4)[0]]
        if schema_bytes not in self._orders:
            if len(self._orders) >= MOST_SCHEMAS:
                self._orders.clear()
            self._orders[schema_bytes] = order_of(schema, self._inputs)
        return self._orders[schema_bytes]


def order_of(schema: pa.Schema, inputs: Sequence[Input]) -> tuple[int, ...] | None:
    """Return which column of a schema each input is, where all are there in the inputs' types or as dictionaries of those."""
    names = [name.lower() for name in schema.names]
    order = []
    for column in inputs:
        if names.count(column.name.lower()) != 1:
            return None
        at = names.index(column.name.lower())
        kind = schema.types[at]
        if (kind.value_type if pa.types.is_dictionary(kind) else kind) != column.type:
            return None
        order.append(at)
    return tuple(order)


def unreadable(error: Exception) -> RequestError:
    """Return the error that refuses a stream, for the error that reading it raised."""
    return (
        error if isinstance(error, RequestError) else RequestError(400, f"The body is not a readable Arrow IPC stream: {error}")
    )


def one_type(chunks: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose chunks are cast alike: several as one."""
    return chunks if chunks.num_chunks <= 1 else pa.chunked_array([chunks.combine_chunks()])


def stream_of(predictions: Mapping[str, pa.Array]) -> bytes:
    """Return predictions as a stream of one batch."""
    batch = pa.record_batch(dict(predictions))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def check(body: bytes, limits: RequestLimits) -> None:
    """Refuse a stream with more rows than one request may have, or with compressed buffers, before it is decoded.

    Raises:
        RequestError: it is refused.
        struct.error: it is damaged.

    Source: the format of messages, https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format.
    """
    at, rows = 0, 0
    while at + 8 <= len(body):
        marker, size = struct.unpack_from("<iI", body, at)
        at += 8
        if marker != -1:
            raise RequestError(400, "The body is not an Arrow IPC stream: a message must begin with 0xFFFFFFFF.")
        if size == 0:
            return
        message = FlatTable(body[at : at + size], struct.unpack_from("<I", body, at)[0])
        kind, length = message.number(1, "<B"), message.number(3, "<q")
        at += size + max(length, 0)
        batch = message.table(2)
        if kind == DICTIONARY_BATCH and batch is not None:
            batch = batch.table(1)
        if kind in (RECORD_BATCH, DICTIONARY_BATCH) and batch is not None:
            if batch.has(3):
                raise RequestError(400, "The Arrow stream is compressed; send it without compression.")
            limits.check_rows(batch.number(0, "<q"))
            rows += batch.number(0, "<q") if kind == RECORD_BATCH else 0
            limits.check_rows(rows)


class FlatTable:
    """A table of FlatBuffers: fields by number.

    Source: https://flatbuffers.dev/internals/.
    """

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - struct.unpack_from("<i", data, at)[0]
        self._size = struct.unpack_from("<H", data, self._fields)[0]

    def place(self, field: int) -> int:
        """Return where a field is, 0 where it is not set."""
        entry = 4 + 2 * field
        offset = struct.unpack_from("<H", self._data, self._fields + entry)[0] if entry < self._size else 0
        return self._at + offset if offset else 0

    def has(self, field: int) -> bool:
        return self.place(field) > 0

    def number(self, field: int, kind: str) -> int:
        """Return a field that is a number, 0 where it is not set."""
        place = self.place(field)
        return int(struct.unpack_from(kind, self._data, place)[0]) if place else 0

    def table(self, field: int) -> FlatTable | None:
        """Return a field that is a table, None where it is not set."""
        place = self.place(field)
        return FlatTable(self._data, place + struct.unpack_from("<I", self._data, place)[0]) if place else None
