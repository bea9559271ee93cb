"""STOP MODEL: let a resident training publish what it has learned, and end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import ModelError
from ...models.listings import versions_table
from ..base import Statement
from ..cursor import Cursor

if TYPE_CHECKING:
    from ..context import StatementContext

WAIT_SECONDS = 600.0
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class StopModel:
    """The resident training of a model is asked to stop, in whatever process it runs, and waited for."""

    model: str

    def run(self, context: StatementContext) -> pa.Table:
        models, residence = context.models, context.models.residence(self.model)
        status = residence.status()
        if status is None:
            if not models.numbers(self.model):
                models.versions(self.model)  # raises: there is no such model
            raise ModelError(
                f"Model {self.model} has no resident training: none was started with PUBLISH EVERY, or it has ended.",
                self.model,
            )
        residence.ask(status.training)
        deadline = time.monotonic() + WAIT_SECONDS
        while (now := residence.status()) is not None and now.training == status.training:
            if time.monotonic() > deadline:
                raise ModelError(
                    f"Process {status.process} on {status.host}, which trains model {self.model}, was asked to stop, and "
                    f"has not within {WAIT_SECONDS:.0f} s. SHOW MODELS says how far it is.",
                    self.model,
                )
            time.sleep(POLL_SECONDS)
        return versions_table(models.present(self.model)[-1:], with_model=True)


def parse(cursor: Cursor) -> StopModel:
    return StopModel(cursor.identifier("a model name"))


STOP_MODEL = Statement(
    "STOP MODEL",
    "STOP MODEL name",
    "Make a resident training (PUBLISH EVERY) publish what it has learned and end; returns the newest version.",
    parse,
)
