"""The contract of streams: relations that grow, read in pieces that stay as they are.

A training settles what it takes of a stream before it learns: `news` lists what came after a position as splits, which are
written to the version's log and then learned like any other. `after` says where those end, and the next version begins there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ....warehouse.manifest import Split
from ...engines.base import Scan
from ...errors import DataError

Position = Mapping[str, Any]
"""How far a stream was learned from, as its manifest keeps it in JSON; empty: not at all. Only the stream itself reads it."""


class AwayError(DataError):
    """Nobody answers for a stream now; it may be asked again."""


class StreamRelation(NamedTuple):
    """What STREAM stands before, as written.

    Attributes:
        kind: `table`, or the function that reads it: `read_files`.
        place: the table's name, or what the function reads first, such as a folder.
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
"""What stands for the stream in the text of its query."""


class InputStream(Protocol):
    """A relation that grows.

    Attributes:
        name: as manifests and messages call it: "table clicks".
    """

    @property
    def name(self) -> str: ...

    def waits(self, position: Position) -> bool:
        """Tell at once whether something may have come after a position; False: certainly nothing."""
        ...

    def news(self, position: Position) -> list[Split]:
        """List what came after a position and is whole, in order of learning.

        Raises:
            DataError: what was learned from is not what it was; says how much of it.
            AwayError: nobody answers.
        """
        ...

    def after(self, position: Position, splits: Sequence[Split]) -> Position:
        """Return the position that splits, which came after another one, lead to."""
        ...

    def counted(self, position: Position) -> str:
        """Return how much was learned from up to a position, in words: "12 files"."""
        ...

    def scan(self, query: str, splits: Sequence[Split]) -> Scan:
        """Return how splits are read, of which there is at least one.

        Args:
            query: over VIEW.

        Raises:
            StatementError: the query cannot run, or is not row by row.
            DataError: the splits differ in their columns.
        """
        ...
