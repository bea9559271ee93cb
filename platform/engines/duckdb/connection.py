"""DuckDB in memory, set up for Spark SQL."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from ... import udf
from .translation import share_macros

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def connect(threads: int) -> DuckDBPyConnection:
    """Open a database in memory, with our functions; it fetches nothing, and spills what does not fit to temporary files."""
    import duckdb

    spill = Path(tempfile.gettempdir()) / f"xpsql-spill-{uuid.uuid4().hex}"
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "threads": threads,
            "temp_directory": str(spill),
            "preserve_insertion_order": "true",
            # DuckDB infers values from the statistics of Parquet files, which leave NaN out.
            "disabled_optimizers": "statistics_propagation",
        },
    )
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    udf.register(connection)
    return connection


def cursor(connection: DuckDBPyConnection) -> DuckDBPyConnection:
    """Return another connection to a database: queries on different connections do not end each other."""
    found = connection.cursor()
    found.execute("SET enable_progress_bar = false")
    share_macros(connection, found)
    return found


def is_usable(connection: DuckDBPyConnection) -> bool:
    """Return whether a database answers: some failures end it for all its connections."""
    import duckdb

    try:
        connection.cursor().execute("SELECT 1")
    except duckdb.FatalException:
        return False
    return True
