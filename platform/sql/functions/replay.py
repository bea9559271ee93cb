"""ML.REPLAY: logged requests of the service, scored again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..base import Call, Pending, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> Pending:
    from ...serving.replay import Replay

    data = call.data
    assert data is not None  # required by the grammar
    version = call.read(context)
    with data.locating():
        replay = Replay(version, context.engine, data.text)

    def write() -> list[Path]:
        with data.locating():
            return replay.write(call.folder, context.reporter)

    return Pending(replay.schema, write)


REPLAY = TableFunction(
    "REPLAY",
    "ML.REPLAY(MODEL name [VERSION n], TABLE t | (query))",
    "Score a log of xpsql serve again, the rows that the version served: the log's columns, served, offline, difference, "
    "keys_missing, keys_extra, slots_that_differ.",
    "required",
    (),
    run,
)
