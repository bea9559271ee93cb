"""Deleting a user's events from a history: from the newest version on, and with every version that had them."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pyarrow as pa

from ...warehouse.durable import make_folder, storing
from ..engines.base import Engine
from .building import publish
from .pins import Deletion, key_of
from .stored import HistoryDefinition, HistoryVersion, StoredHistories


def delete_user(histories: StoredHistories, definition: HistoryDefinition, engine: Engine, user: pa.Array) -> int:
    """Delete a user's events, under `changing`: remember whose, publish a version without them, and remove all others.

    Killed on the way, it is finished by the next refresh.

    Args:
        user: one, of the type of users.

    Returns:
        How many events there were.
    """
    before = histories.current(definition.name)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    histories.keep_deletion(definition.name, Deletion(key_of(user), at, before.number + 1))
    return before.rows - without_deleted(histories, definition, engine, before).rows


def without_deleted(
    histories: StoredHistories, definition: HistoryDefinition, engine: Engine, before: HistoryVersion
) -> HistoryVersion:
    """Publish a version without the events of users who were deleted, and remove those before it; under `changing`."""
    with histories.draft(definition.name) as draft:
        with storing(draft):
            make_folder(draft / "events")
            for file in before.events.glob("*.parquet"):
                os.link(file, draft / "events" / file.name)
        files = sorted((draft / "events").glob("*.parquet"))
        histories.leave_out(definition, files)
        version = publish(histories, definition, engine, draft, None, files, before.position)
    histories.keep_only(definition.name, version.number)
    return version


def pending(histories: StoredHistories, name: str, before: HistoryVersion) -> bool:
    """Return whether a deletion was killed before it had published a version."""
    return any(one.version > before.number for one in histories.deletions(name))
