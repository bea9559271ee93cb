"""The kinds of streams, one line each in SOURCES."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...engines.iceberg import of_catalog
from ...errors import StatementError, Subject, suggestion
from ...options import Value, parse
from .base import InputStream, StreamRelation
from .folder import FilesOptions, FolderStream
from .kafka_options import PREFIX, KafkaOptions
from .table import TableStream
from .topic import TopicStream

TABLE = "table"
DELTA = "delta"


class StreamKind(NamedTuple):
    """A function that reads a stream, for STREAM.

    Attributes:
        name: as written.
        place: the first parameter, which may be written without its name.
        grammar: its syntax, for docs.
        help: one line.
        options: the dataclass that declares its other parameters; `max_files` is written maxFiles.
        open: makes the stream from a place, options, the warehouse, and whether lost data are forgiven.
        prefix: the prefix of parameters that are settings of the client, "kafka."; they are one option, of that name.
    """

    name: str
    place: str
    grammar: str
    help: str
    options: type[Any]
    open: Callable[[str, Any, Path, bool], InputStream]
    prefix: str = ""


SOURCES = (
    StreamKind(
        "read_files",
        "path",
        "STREAM read_files('folder' [, name => value, ...])",
        "The files of a folder, or files that match a pattern, as they arrive.",
        FilesOptions,
        FolderStream,
    ),
    StreamKind(
        "read_kafka",
        "subscribe",
        "STREAM read_kafka(bootstrapServers => 'host:port', subscribe => 'topic' [, name => value, ...])",
        "The messages of a topic of Kafka. Needs the extra `kafka`.",
        KafkaOptions,
        TopicStream,
        PREFIX,
    ),
)


def read_source(name: str, arguments: Mapping[str, Value]) -> StreamRelation:
    """Return the relation of a function as written.

    Args:
        arguments: by name; a first one without a name is "".

    Raises:
        StatementError: there is no such function or parameter, or a value does not fit.
    """
    source = next((source for source in SOURCES if source.name == name.lower()), None)
    if source is None:
        known = [source.name for source in SOURCES]
        raise StatementError(f"There is no stream {name}().{suggestion(name, known)}")
    passed = {key: value for key, value in arguments.items() if source.prefix and key.startswith(source.prefix)}
    given = {camel_free(key): value for key, value in arguments.items() if key not in passed}
    place = given.pop("", None) or given.pop(camel_free(source.place), None)
    if place is None or not isinstance(place.value, str) or not place.value:
        raise StatementError(f"{source.name} expects {source.place}, a string: {source.grammar}.", place and place.position)
    fields = {camel_free(name): name for name in source.options.__dataclass_fields__}
    named = {fields.get(key, key): value for key, value in given.items()}
    if passed:
        values = {key.removeprefix(source.prefix): value.value for key, value in passed.items()}
        named[source.prefix.removesuffix(".")] = Value(values, next(iter(passed.values())).position)
    return StreamRelation(source.name, place.value, parse(source.options, named, Subject("STREAM", source.name)))


def camel_free(name: str) -> str:
    """Return a parameter's name for comparison: startingOffsets and starting_offsets are the same."""
    return name.replace("_", "").lower()


def opened(relation: StreamRelation, warehouse: Path, forgives: bool) -> InputStream:
    """Open a stream.

    Args:
        forgives: lost data is skipped (WITH data_loss = 'continue').
    """
    if relation.kind == TABLE and of_catalog(parts := relation.place.split(".")):
        from .iceberg import IcebergStream

        return IcebergStream(parts, warehouse, forgives)
    if relation.kind == DELTA:
        from .delta import DeltaStream

        return DeltaStream(relation.place, warehouse, forgives)
    if relation.kind == TABLE:
        return TableStream(relation.place, warehouse, forgives)
    source = next(source for source in SOURCES if source.name == relation.kind)
    return source.open(relation.place, relation.options, warehouse, forgives)
