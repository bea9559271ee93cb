"""Building a version of a history: new events beside the previous version's, and the last events of each user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ...warehouse.durable import clear
from ..engines.base import Engine, internal_name
from ..quoting import quoted
from .event_files import merge_events, write_events
from .image import write_image
from .stored import ALL, IMAGE, HistoryDefinition, HistoryVersion, StoredHistories


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
    with_events(definition, engine, draft, before, new)
    kept, users = write_image(sorted((draft / "kept").glob("*.parquet")), draft / IMAGE, definition.partition)
    rows = sum(pq.read_metadata(file).num_rows for file in (draft / "events").glob("*.parquet"))
    return histories.publish(definition.name, draft, rows, kept, users, position)


def with_events(
    definition: HistoryDefinition, engine: Engine, draft: Path, before: HistoryVersion | None, new: list[Path]
) -> None:
    """Write the event image of a draft: the new events are sorted, and merged with the image of the previous version.

    A previous version without an image has been made before there were such; all events are sorted then.
    """
    merges = before is not None and (before.folder / ALL).exists()
    files = new if merges else sorted((draft / "events").glob("*.parquet"))
    view, run = internal_name("events"), draft / "run"
    engine.register(view, files)
    try:
        engine.stage(all_events(definition, view), run)
    finally:
        engine.unregister(view)
    to = draft / "run_image" if merges else draft / ALL
    write_events(sorted(run.glob("*.parquet")), to, definition.partition, definition.order, definition.values)
    if before is not None and merges:
        merge_events(before.folder / ALL, to, draft / ALL)
        clear(to)
    clear(run)


def all_events(definition: HistoryDefinition, view: str) -> str:
    """Return the query of all events in a view that count, in order of user, time and values."""
    columns, there = columns_of(definition)
    return f"SELECT {columns} FROM {view} WHERE {there} ORDER BY {columns}"


def columns_of(definition: HistoryDefinition) -> tuple[str, str]:
    """Return the columns of events, and the condition under which one counts."""
    user, time = quoted(definition.partition), quoted(definition.order)
    values = [quoted(name) for name in definition.values]
    there = " OR ".join(f"{value} IS NOT NULL" for value in values)
    return ", ".join((user, time, *values)), f"{user} IS NOT NULL AND {time} IS NOT NULL AND ({there})"


def last_events(definition: HistoryDefinition, view: str) -> str:
    """Return the query of the last events of each user in a view, in order of user and time."""
    user, time = quoted(definition.partition), quoted(definition.order)
    values = [quoted(name) for name in definition.values]
    latest = ", ".join(f"{column} DESC" for column in (time, *values))
    columns, there = columns_of(definition)
    return (
        f"SELECT {columns} FROM (SELECT {columns}, row_number() OVER (PARTITION BY {user} ORDER BY {latest}) AS xpsql_rank "
        f"FROM {view} WHERE {there}) WHERE xpsql_rank <= {definition.keep} "
        f"ORDER BY {columns}"
    )
