"""Stage staging: a query that cannot be read in place runs once, and its rows become files of the version."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ....warehouse.manifest import Manifest
from ...engines.base import Engine, Scan, Staged, staged
from ...engines.parquet_scan import ParquetScan, staged_scan
from ...errors import StatementError
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
        return given.having(scan=moved(given.trial.rows, folder, found.schema))
    if plan.passing and not isinstance(found, Staged):
        found = Staged(found.schema, "the results of its calls go with the statement")
    text = plan.query if plan.stream is None else plan.stream.query
    return given.having(scan=staged(given.engine, text, found, folder))


def moved(rows: Path, folder: Path, schema: pa.Schema) -> Scan:
    """Return how to read the rows of a query that ran before, which become those of a version."""
    rows.rename(folder)
    return staged_scan(tuple(str(file) for file in sorted(folder.absolute().glob("*.parquet"))), schema)


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
    return plan.stream is None or plan.settings.delay is not None


def scan_again(plan: Plan, manifest: Manifest, engine: Engine) -> Scan:
    """Return how the splits of a manifest are read."""
    record = manifest.input
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(record["schema"])))
    if not record["projected"]:
        return ParquetScan((), dict(record["columns"]), None, tuple(record["needed"]), schema).over(manifest.splits)
    scan = engine.scan(plan.query)
    if isinstance(scan, Staged) or scan.exact or not scan.schema.equals(schema):
        raise StatementError(
            f"RESUME needs the query of version {manifest.version} to mean what it meant; it reads other columns now. Make the "
            "tables and views that it names as they were, or train again."
        )
    return scan.over(manifest.splits)


STAGE = Stage(rows=rows)
