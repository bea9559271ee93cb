"""DROP MODEL: remove a model, one of its versions, or old versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import StatementError
from ..base import Statement
from ..cursor import Cursor
from ..versions import NamedVersion, read_version

if TYPE_CHECKING:
    from ..context import StatementContext


@dataclass(frozen=True)
class DropModel:
    """Remove a model, or one version; with IF EXISTS, what is absent already is fine.

    Where the version was served, the result says which one is served from now on.
    """

    named: NamedVersion
    if_exists: bool

    def run(self, context: StatementContext) -> None:
        if self.if_exists and not self.present(context):
            return
        model, number = self.named
        was_served = number is not None and number == context.models.served(model)
        context.models.drop(model, number)
        if was_served:
            now = context.models.served(model)
            heir = "none" if now is None else f"version {now}"
            context.reporter.note(f"Version {number} of model {model} was the one served; {heir} is served now.")

    def present(self, context: StatementContext) -> bool:
        model, version = self.named
        numbers = context.models.numbers(model)
        return bool(numbers) if version is None else version in numbers


@dataclass(frozen=True)
class DropOldVersions:
    """Remove the versions before the newest that are ready; reports which. See Models.drop_old."""

    model: str
    retained: int
    if_exists: bool

    def run(self, context: StatementContext) -> None:
        if self.if_exists and not context.models.numbers(self.model):
            return
        if old := context.models.drop_old(self.model, self.retained):
            numbers = f"version{'s' if len(old) > 1 else ''} {', '.join(map(str, old))}"
            context.reporter.note(f"Dropped {numbers} of model {self.model}.")


def parse(cursor: Cursor) -> DropModel | DropOldVersions:
    if_exists = cursor.accept("IF", "EXISTS")
    named = read_version(cursor)
    if named.version is not None or not cursor.accept("VERSIONS"):
        return DropModel(named, if_exists)
    cursor.expect("RETAIN", "LAST")
    position, retained = cursor.position(), cursor.integer("a number of versions")
    if retained < 1:
        message = f"RETAIN LAST takes 1 version or more, got {retained}; DROP MODEL {named.model} removes all."
        raise StatementError(message, position)
    return DropOldVersions(named.model, retained, if_exists)


DROP_MODEL = Statement(
    "DROP MODEL",
    "DROP MODEL [IF EXISTS] name [VERSION n | VERSIONS RETAIN LAST n]",
    "Remove a model, one version of it, or the versions before the newest n that are ready.",
    parse,
)
