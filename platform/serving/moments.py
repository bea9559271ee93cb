"""Requests for versions that read stored histories: they have the user, and the time, now where they lack it."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from ..input.columns import Columns
from .inputs import Input, by_lower_name


def scored_columns(columns: Columns) -> tuple[Input, ...]:
    """Return the columns that are scored: those of slots, and in place of fields of stored histories the user and the time.

    Raises:
        ModelError: a history, or its image, is gone.
    """
    slots = {slot.column: slot for slot in columns.slots if not slot.members}
    kinds = dict[str, pa.DataType]()
    for history in columns.histories:
        image = history.image()
        kinds |= zip(history.reads, (image.user_type, image.time_type), strict=True)
    lower = by_lower_name(slots)
    return tuple(
        Input.of(slots[lower[name.lower()]]) if name.lower() in lower else Input(name, None, kinds[name])
        for name in columns.inputs
    )


def moments_of(columns: Columns) -> dict[str, pa.DataType]:
    """Return the columns of times by which stored histories are read, and their types."""
    return {history.entry.order: history.image().time_type for history in columns.histories}


def now_in(kind: pa.DataType) -> str | int:
    """Return the time now as a request would say it; of times that are numbers the largest."""
    if pa.types.is_integer(kind):
        return int(2 ** (kind.bit_width - 1) - 1)
    now = datetime.now(UTC)
    return now.date().isoformat() if pa.types.is_date(kind) else now.isoformat()
