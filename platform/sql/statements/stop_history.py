"""STOP HISTORY name."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import ModelError
from ...histories.stored import POLL_SECONDS, StoredHistories
from ..base import Statement
from .history import listed

if TYPE_CHECKING:
    from ..context import StatementContext

STOP_SECONDS = 120.0


@dataclass(frozen=True)
class StopHistory:
    """The process that publishes a history repeatedly is asked to stop, and waited for."""

    name: str

    def run(self, context: StatementContext) -> pa.Table:
        histories = StoredHistories(context.models.warehouse)
        histories.definition(self.name)
        deadline = time.monotonic() + STOP_SECONDS
        if not histories.published(self.name):
            raise ModelError(f"No process publishes history {self.name}: none was started with PUBLISH EVERY, or it has ended.")
        while histories.published(self.name):
            histories.ask_to_stop(self.name)  # again, in case it has begun since
            if time.monotonic() > deadline:
                raise ModelError(
                    f"The process that publishes history {self.name} was asked to stop, and has not "
                    f"within {STOP_SECONDS:.0f} s."
                )
            time.sleep(POLL_SECONDS)
        version = histories.newest(self.name)
        return listed([] if version is None else [(self.name, version)])


STOP_HISTORY = Statement(
    "STOP HISTORY",
    "STOP HISTORY name",
    "Make the process that publishes a history (PUBLISH EVERY) publish new events and end; returns the newest version.",
    lambda cursor: StopHistory(cursor.identifier("the name of a history")),
)
