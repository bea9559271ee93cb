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
    """Remove a model, or one version; with IF EXISTS, what is absent already is fine.

    Where the version was the one served, it is told which one is served from now on.
    """

    named: Named
    if_exists: bool

    def run(self, session: Session) -> None:
        if self.if_exists and not self.present(session):
            return
        model, number = self.named
        was_served = number is not None and number == session.models.served(model)
        session.models.drop(model, number)
        if was_served:
            now = session.models.served(model)
            heir = "none" if now is None else f"version {now}"
            session.reporter.note(f"Version {number} of model {model} was the one served; {heir} is served now.")

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
