"""DROP MODEL: remove a model or one of its versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base import Statement
from ..cursor import Cursor
from ..versions import Named, read_version

if TYPE_CHECKING:
    from ...session import Session


@dataclass(frozen=True)
class DropModel:
    """Remove a model, or one version; with IF EXISTS, what is absent already is fine."""

    named: Named
    if_exists: bool

    def run(self, session: Session) -> None:
        if self.if_exists and not self.present(session):
            return
        session.models.drop(*self.named)

    def present(self, session: Session) -> bool:
        model, version = self.named
        numbers = session.models.numbers(model)
        return bool(numbers) if version is None else version in numbers


def parse(cursor: Cursor) -> DropModel:
    if_exists = cursor.accept("IF", "EXISTS")
    return DropModel(read_version(cursor), if_exists)


DROP_MODEL = Statement(
    "DROP MODEL",
    "DROP MODEL [IF EXISTS] name [VERSION n]",
    "Remove a model, or one version of it.",
    parse,
)
