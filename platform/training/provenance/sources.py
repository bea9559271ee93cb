"""What the queries of a training read, as its manifest keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ....warehouse.entries import SourceEntry
from ...engines.base import Engine
from ...errors import StatementError
from ..clauses.items import ITEMS
from ..clauses.validate import VALIDATE
from ..clauses.vectors import VECTORS
from ..plan import Plan
from ..segment import Segment

ROWS, OF_QUERY = "rows", "rows of the query"
CHUNK = 1 << 24


def sources_of(plan: Plan, engine: Engine) -> tuple[SourceEntry, ...]:
    """Return the tables and files that a training's queries read, each once.

    Of a query whose relations cannot be found again, its text is kept.
    """
    found: dict[tuple[str, str], SourceEntry] = {}
    for query in queries(plan):
        try:
            found |= {(one.kind, one.name): one for one in engine.sources(query)}
        except (StatementError, OSError):
            found["query", query] = SourceEntry("query", query)
    return tuple(found.values())


def staged_source(folder: Path) -> SourceEntry:
    """Return what a query gave that ran once: files whose digest is of their bytes, rows in their order. It tells a query that
    gives other rows from a training that makes something else of the same."""
    import xxhash

    digest, files = xxhash.xxh3_128(), sorted(folder.glob("*.parquet"))
    for path in files:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    return SourceEntry(ROWS, OF_QUERY, "", len(files), sum(path.stat().st_size for path in files), digest.hexdigest())


def queries(plan: Plan) -> Iterator[str]:
    """Yield the queries of a statement: its own, without its stream, and those of clauses."""
    yield plan.query if plan.stream is None else plan.stream.query
    vectors, validate = plan.clause(VECTORS), plan.clause(VALIDATE)
    yield from vectors.values()
    for query in (plan.clause(ITEMS), None if validate is None else validate.query):
        if query is not None:
            yield query


def stream_source(segment: Segment) -> SourceEntry:
    """Return what was learned of a stream: from which position to which."""
    kind, _, name = segment.stream.name.partition(" ")
    return SourceEntry(kind, name, position={"from": segment.before, "to": segment.position})
