"""Events as a chunk and a batch have them, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpsql.algorithms.blocks.base import BatchWindow
from xpsql.algorithms.blocks.events import EventRows, Events
from xpsql.platform.input.batches import padded_length

ABSENT_ROW = 10_000


def event_rows(users: Any, seconds: Any, length: int, fields: Any = None) -> EventRows:
    """Return the events of a chunk, whose one field is the number of the row where none is given."""
    n = len(users)
    fields = np.arange(n)[None] if fields is None else fields
    times = np.asarray(seconds, np.int64) * 1_000_000
    return EventRows(np.asarray(users, np.uint64), times, length, np.asarray(fields, np.int32))


def cut(rows: EventRows, start: int = 0, stop: int | None = None, size: int | None = None) -> Events:
    """Return a batch of a chunk; the row of a code is the code."""
    stop = len(rows.users) if stop is None else stop
    codes, _ = rows.features(start, stop)
    window = BatchWindow(
        start, stop, size or stop - start, ABSENT_ROW, padded_length, lambda shape, kind: np.empty(shape, kind)
    )
    return rows.cut(window, codes)
