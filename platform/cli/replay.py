"""The command `xpsql replay`: every request of a log scored again, and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import StatementError
from ..local import local_path
from .commands import chosen_of, failing, main, opened, session_options, writing
from .output import FORMATS

if TYPE_CHECKING:
    import pyarrow as pa

    from ..session import Session

SUMMARY = """
SELECT '{name}' AS model, {number} AS version, count(*) AS rows,
    count_if(NOT coalesce(difference <= {tolerance!r}D, false)) AS differ,
    count_if(size(slots_that_differ) > 0) AS keys_differ, max(difference) AS largest_difference
FROM ML.REPLAY(MODEL `{name}` VERSION {number}, TABLE parquet.`{folder}`)
"""
FOUND = 1


@main.command()
@click.argument("folder")
@click.option("--tolerance", type=click.FloatRange(0), default=0.0, show_default=True, help="How much predictions may differ.")
@session_options
def replay(folder: str, tolerance: float, **options: Any) -> None:
    """Score a log of serve again, and compare the predictions.

    FOLDER is what --log-requests has written. The exit code is 1 if predictions or keys differ.
    """
    chosen = chosen_of(options)
    with failing("", "", chosen.debug), opened(chosen) as session:
        import pyarrow as pa

        found = pa.concat_tables(list(summaries(session, local_path(folder, "The log", None), tolerance)))
        with writing("the result to stdout", "Free space where it goes, or send it elsewhere."):
            FORMATS[chosen.format](found)
    if any(row["differ"] or row["keys_differ"] for row in found.to_pylist()):
        sys.exit(FOUND)


def summaries(session: Session, folder: Path, tolerance: float) -> Iterator[pa.Table]:
    """Yield what differs, a row for each model and version of a log.

    Raises:
        StatementError: there is no log.
    """
    from ..serving.request_log import MODEL, VERSION

    parts = sorted(folder.glob(f"{MODEL}=*/{VERSION}=*"))
    if not parts:
        raise StatementError(f"There is no log of xpsql serve in {folder}: expected folders {MODEL}=<name>/{VERSION}=<n>.")
    for part in parts:
        name, number = part.parent.name.partition("=")[2], part.name.partition("=")[2]
        yield session.sql(SUMMARY.format(name=name, number=int(number), tolerance=tolerance, folder=part)).arrow()
