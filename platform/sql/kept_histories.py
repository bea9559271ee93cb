"""The histories that CREATE HISTORY made, as HISTORY(name.column, partition, order) reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import StatementError
from ..quoting import quoted

if TYPE_CHECKING:
    from .context import StatementContext
    from .history_calls import KeptHistory


def kept_in(context: StatementContext) -> Callable[[str], KeptHistory]:
    """Return a function that finds the histories of a warehouse."""

    def find(name: str) -> KeptHistory:
        from ..histories.stored import StoredHistories
        from .history_calls import KeptHistory

        histories = StoredHistories(context.models.warehouse)
        one, version = histories.definition(name), histories.newest(name)
        if version is None:
            raise StatementError(f"The history {name} has no version. REFRESH HISTORY {name} makes one.")
        events = f"SELECT * FROM parquet.{quoted(str(version.events.absolute()))}"
        return KeptHistory(events, (one.partition,), one.order, one.values, one.keep, one.within)

    return find
