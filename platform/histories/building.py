"""Building a version of a history: new events beside the previous version's, and the last events of each user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ..engines.base import Engine, internal_name
from ..quoting import quoted
from .image import write_image
from .stored import IMAGE, HistoryDefinition, HistoryVersion, StoredHistories


def publish(
    histories: StoredHistories,
    definition: HistoryDefinition,
    engine: Engine,
    draft: Path,
    before: HistoryVersion | None,
    new: list[Path],
    position: Mapping[str, Mapping[str, Any]],
) -> HistoryVersion:
    """Make a version of a draft whose folder `events` has all events.

    Args:
        before: the previous version; None: `new` has all events.
        new: the files of the others; one at least, of any number of rows.
    """
    view = internal_name("events")
    known = [] if before is None else sorted((before.folder / "kept").glob("*.parquet"))
    engine.register(view, [*known, *new])
    try:
        engine.stage(last_events(definition, view), draft / "kept")
    finally:
        engine.unregister(view)
    kept, users = write_image(sorted((draft / "kept").glob("*.parquet")), draft / IMAGE, definition.partition)
    rows = sum(pq.read_metadata(file).num_rows for file in (draft / "events").glob("*.parquet"))
    return histories.publish(definition.name, draft, rows, kept, users, position)


def last_events(definition: HistoryDefinition, view: str) -> str:
    """Return the query of the last events of each user in a view, in order of user and time."""
    user, time = quoted(definition.partition), quoted(definition.order)
    values = [quoted(name) for name in definition.values]
    latest = ", ".join(f"{column} DESC" for column in (time, *values))
    there = " OR ".join(f"{value} IS NOT NULL" for value in values)
    columns = ", ".join((user, time, *values))
    return (
        f"SELECT {columns} FROM (SELECT {columns}, row_number() OVER (PARTITION BY {user} ORDER BY {latest}) AS xpsql_rank "
        f"FROM {view} WHERE {user} IS NOT NULL AND {time} IS NOT NULL AND ({there})) WHERE xpsql_rank <= {definition.keep} "
        f"ORDER BY {', '.join((user, time, *values))}"
    )
