"""The contract of streams: relations that grow, read in immutable pieces.

A training decides what it takes of a stream before it learns: `news` lists what arrived after a position (offset) as splits,
which are written to the version's log and then learned like any other. `after` says where those end, and the next version
begins there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ....warehouse.entries import Split
from ...engines.base import Scan
from ...errors import DataError

Position = Mapping[str, Any]
"""A position (offset) in a stream, as a manifest keeps it in JSON; empty: nothing was learned. Only the stream itself reads
it."""


class AwayError(DataError):
    """A stream is unavailable now; try again later."""


class StreamRelation(NamedTuple):
    """The relation after the keyword STREAM, as written.

    Attributes:
        kind: `table`, or the function that reads it: `read_files`.
        place: the table's name, or the function's first argument, such as a folder.
        options: the function's options.
    """

    kind: str
    place: str
    options: Any


class StreamQuery(NamedTuple):
    """A query over one stream.

    Attributes:
        query: the text, in which VIEW stands for the stream.
        relation: the stream.
    """

    query: str
    relation: StreamRelation


VIEW = "xpsql_stream"
"""The name that stands for the stream in the text of its query."""


class InputStream(Protocol):
    """A relation that grows.

    Attributes:
        name: as manifests and messages call it: "table clicks".
    """

    @property
    def name(self) -> str: ...

    def waits(self, position: Position) -> bool:
        """Return without a wait whether something may have arrived after a position; False: certainly nothing."""
        ...

    def news(self, position: Position) -> list[Split]:
        """List what arrived after a position and is complete, in order of learning.

        Raises:
            DataError: data that was learned from has changed; says how much.
            AwayError: the stream is unavailable.
        """
        ...

    def after(self, position: Position, splits: Sequence[Split]) -> Position:
        """Return the position after splits that arrived after another position."""
        ...

    def forgiven(self, position: Position) -> Position:
        """Return a position as it is once what was lost before it was learned is passed over; itself where nothing was lost.

        Raises:
            AwayError: the stream is unavailable.
        """
        ...

    def noticed(self, position: Position) -> str | None:
        """Return what has become of the data up to a position that a user should know and that stops nothing; None: nothing."""
        ...

    def counted(self, position: Position) -> str:
        """Return how much was learned from up to a position, in words: "12 files"."""
        ...

    def scan(self, query: str, splits: Sequence[Split]) -> Scan:
        """Return how splits are read; there is at least one.

        Args:
            query: over VIEW.

        Raises:
            StatementError: the query cannot run, or is not row by row.
            DataError: the splits differ in their columns.
        """
        ...
