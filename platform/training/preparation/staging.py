"""Stage staging: a query that cannot be read in place runs once, and its rows become files of the version."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ....warehouse.durable import clear, make_folder
from ....warehouse.manifest import Manifest
from ....warehouse.names import part_name
from ...engines.base import Engine, Scan, Staged, internal_name
from ...engines.parquet import ROW_GROUP_ROWS, written
from ...engines.parquet_scan import ParquetScan, staged_scan
from ...engines.staging import staged
from ...errors import StatementError
from ...input.runs.event_order import REASON, in_order
from ...options import events_read
from ..clauses.column_roles import GROUP, TIME
from ..plan import Plan
from ..segment import Segment, cut_again
from .base import Mode, Preparation, Stage

if TYPE_CHECKING:
    from ....warehouse.draft import Draft
    from ....warehouse.version import Version


def rows(given: Preparation) -> Preparation:
    """Find how the rows are read."""
    plan, found = given.plan, given.found
    if given.mode is not Mode.LEARN:
        assert not isinstance(found, Staged)  # EXPLAIN reads no rows of such a query, and the others have none
        return given.having(scan=found)
    folder = given.folders.staged
    if given.trial.rows is not None:
        return given.having(scan=moved(given.trial.rows, folder, found.schema, bool(user_of(plan))))
    if plan.passing and not isinstance(found, Staged):
        found = Staged(found.schema, "the results of its calls go with the statement")
    text = plan.query if plan.stream is None else plan.stream.query
    if user := user_of(plan):
        with as_view(given, folder.with_name(f"{folder.name}_new")) as view:
            ordered = in_order(view or text, found.schema, user, plan.clause(TIME))
            return given.having(scan=staged(given.engine, ordered, Staged(found.schema, REASON, user), folder))
    return given.having(scan=staged(given.engine, text, found, folder))


def user_of(plan: Plan) -> str:
    """Return the column of users, where the algorithm reads their rows as events; "" where each row stands for itself."""
    return (plan.clause(GROUP) or "") if events_read(plan.algorithm.options) else ""


@contextmanager
def as_view(given: Preparation, folder: Path) -> Iterator[str]:
    """Yield a query of what has come in a stream, whose rows are in files for the length of the block; "" where the engine runs
    the plan's own."""
    scan = given.found
    if given.plan.stream is None or isinstance(scan, Staged):
        yield ""
        return
    make_folder(folder)
    path, view = folder / part_name(0), internal_name("segment")
    try:
        with written(path, scan.schema) as writer:
            for split in scan.splits():
                for table in scan.read(split, scan.schema.names, ROW_GROUP_ROWS):
                    writer.write_table(table.cast(scan.schema))
        given.engine.register(view, [path])
        try:
            yield f"SELECT * FROM {view}"
        finally:
            given.engine.unregister(view)
    finally:
        clear(folder)


def moved(rows: Path, folder: Path, schema: pa.Schema, whole: bool) -> Scan:
    """Return how to read the rows of a query that ran before, which become those of a version."""
    rows.rename(folder)
    return staged_scan(tuple(str(file) for file in sorted(folder.absolute().glob("*.parquet"))), schema, whole)


def found_again(plan: Plan, draft: Draft, engine: Engine, parent: Version | None) -> tuple[Scan, Segment | None]:
    """Return how the rows of an interrupted training are read, and what it took of a stream.

    Raises:
        StatementError: the query's expressions cannot be made again in this session.
        DataError: a file changed or is gone.
    """
    scan = scan_again(plan, draft.manifest, engine) if kept(plan) else None
    segment = None if plan.stream is None else cut_again(plan.stream, parent, draft.folder, plan.settings.forgives, scan)
    if scan is None:
        assert segment is not None
        assert not isinstance(segment.scan, Staged)
        scan = segment.scan
    return scan, segment


def kept(plan: Plan) -> bool:
    """Return whether a version's manifest keeps the splits that it learns from; a stream's are in its log of segments."""
    return plan.stream is None or plan.settings.delay is not None or bool(user_of(plan))


def scan_again(plan: Plan, manifest: Manifest, engine: Engine) -> Scan:
    """Return how the splits of a manifest are read."""
    record = manifest.input
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(record["schema"])))
    if not record["projected"]:
        own = ParquetScan((), dict(record["columns"]), None, tuple(record["needed"]), schema, whole=bool(user_of(plan)))
        return own.over(manifest.splits)
    scan = engine.scan(plan.query)
    if isinstance(scan, Staged) or scan.exact or not scan.schema.equals(schema):
        raise StatementError(
            f"RESUME needs the query of version {manifest.version} to mean what it meant; it reads other columns now. Make the "
            "tables and views that it names as they were, or train again."
        )
    return scan.over(manifest.splits)


STAGE = Stage(rows=rows)
