"""The segment of a stream that a training learns: from its parent's position to the newest data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...warehouse.entries import Split
from ...warehouse.trainings.segments import read_passed, read_segments, write_passed
from ..engines.base import Scan, Staged
from ..errors import DataError, StatementError
from ..input.streams.base import VIEW, InputStream, Position, StreamQuery
from ..input.streams.files import check_joins, files_of, old_enough
from ..input.streams.segment_scan import SegmentScan
from ..input.streams.sources import opened

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..engines.base import Engine
    from .clauses.settings import Settings


class Segment(NamedTuple):
    """The part of a stream that a training takes.

    Attributes:
        stream: where it is taken from.
        scan: how it is read; for a joined stream, the files that the query's rows were written to.
        splits: all splits that it learns from, and splits without rows; for a joined stream, the splits that the query read.
        before: the position that its parent ended at.
    """

    stream: InputStream
    scan: Scan | Staged
    splits: Sequence[Split]
    before: Position

    @property
    def position(self) -> Position:
        """Where it ends."""
        return self.stream.after(self.before, self.splits)

    def beside(self, folder: Path) -> Segment:
        """Return the same segment, which records in its version's folder what it skips."""
        return self._replace(scan=self.scan.beside(folder)) if isinstance(self.scan, SegmentScan) else self


def cut(query: StreamQuery, parent: Version | None, warehouse: Path, forgives: bool) -> tuple[InputStream, Segment | None]:
    """Return a stream, and what came since a parent; None where nothing did.

    Raises:
        StatementError: the query cannot run or is not row by row, or the parent learned from another stream.
        DataError: data that was learned from has changed, or cannot be read.
    """
    stream = opened(query.relation, warehouse, forgives)
    before = begin_of(stream, parent, forgives)
    splits = stream.news(before)
    if not splits:
        return stream, None
    if is_passed(stream, query, splits, parent, stream.after(before, splits)):
        return stream, None
    return stream, Segment(stream, stream.scan(query.query, splits), splits, before)


@contextmanager
def taken(
    query: StreamQuery, parent: Version | None, engine: Engine, warehouse: Path, settings: Settings
) -> Iterator[tuple[InputStream, Segment | None]]:
    """Yield a stream, and what came since a parent, None where nothing did; as `cut`, or to be joined where a delay is given:
    then the engine has what came and has waited so long as VIEW, for the length of the block.

    Raises:
        StatementError, DataError: as cut.
    """
    if settings.delay_seconds is None:
        yield cut(query, parent, warehouse, settings.forgives)
        return
    stream = opened(query.relation, warehouse, settings.forgives)
    before = begin_of(stream, parent, settings.forgives)
    check_joins(query.query)
    splits = old_enough(stream.news(before), settings.delay_seconds)
    if not splits:
        yield stream, None
        return
    engine.register(VIEW, [Path(file.path) for file in files_of(splits)])
    try:
        yield stream, Segment(stream, Staged(engine.scan(query.query).schema, "it is joined"), splits, before)
    finally:
        engine.unregister(VIEW)


def is_passed(
    stream: InputStream, query: StreamQuery, splits: Sequence[Split], parent: Version | None, after: Position
) -> bool:
    """Return whether splits have no row to learn from, so that they need not be read again; the parent then keeps that
    position.

    Args:
        after: the position that they lead to.
    """
    from ..input.splits import is_empty  # brings JAX, which a job that finds nothing new does without

    scan = stream.scan(query.query, splits)
    rows = [split for split in splits if split.rows]
    if not is_empty(scan, rows):
        return False
    if parent is not None:
        if isinstance(scan, SegmentScan):
            is_empty(scan.beside(parent.folder), rows)  # read once more, so that what is skipped is recorded
        write_passed(parent.folder, {**read_passed(parent.folder), stream.name: after})
    return True


def cut_again(query: StreamQuery, parent: Version | None, folder: Path, forgives: bool, staged: Scan | None = None) -> Segment:
    """Return what the log of an interrupted version says that it takes.

    Args:
        staged: for a joined stream, the files that the query's rows were written to.

    Raises:
        StatementError: the query cannot run any more.
        DataError: the splits are not what they were, or the log has none.
    """
    stream = opened(query.relation, folder.parents[2], forgives)
    splits = [split for segment in read_segments(folder) for split in segment]
    if not splits:
        raise DataError(f"The log of segments in {folder} is gone. Train again.")
    scan = stream.scan(query.query, splits) if staged is None else staged
    return Segment(stream, scan, splits, begin_of(stream, parent, forgives)).beside(folder)


def begin_of(stream: InputStream, parent: Version | None, forgives: bool) -> Position:
    """Return the position where a stream begins: where the parent ended; past what was lost after that, if that is forgiven.

    Raises:
        StatementError: the parent learned from other streams and not from this one; says how much.
    """
    positions: Mapping[str, Mapping[str, Any]] = {} if parent is None else parent.position
    if parent is not None and positions and stream.name not in positions and not forgives:
        others = ", ".join(positions)
        raise StatementError(
            f"Version {parent.number} of {parent.manifest.model} has learned from {others}, and not from {stream.name}. Stream "
            "that one; WITH (data_loss = 'continue') begins with this one, from its first row."
        )
    found = positions.get(stream.name, {})
    return stream.forgiven(found) if forgives else found
