"""Finding algorithms and operators by name: the built-in ones first, then plugins, the entry points of other packages.

A package adds an operator with the entry point `xpsql.operators` (an algorithm: `xpsql.algorithms`) whose name is the part's
and whose object is a `Part`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import Position, StatementError, Subject, suggestion
from .options import Part, Value, parse

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .registry import Registry

AnyPart = Part[Any, Any]


@dataclass(frozen=True)
class PartKind:
    """A kind of parts that statements name: built-in ones, and plugins of other packages.

    Attributes:
        name: "algorithm" or "operator".
        built_in: returns the parts of this package.
    """

    name: str
    built_in: Callable[[], Registry[AnyPart]]

    def find(self, name: str, position: Position | None) -> AnyPart:
        """Return the part of this name, compared without case.

        Raises:
            StatementError: there is none, or the package that offers it fails; the message lists what there is.
        """
        parts = self.built_in()
        if (part := parts.find(name.lower())) is not None:
            return part
        plugins = {point.name.lower(): point for point in self.plugged()}
        if name.lower() in plugins:
            return self.load(plugins[name.lower()], position)
        valid = [*parts.names, *plugins]
        raise StatementError(f"There is no {self.name} {name!r}.{suggestion(name, valid)}", position)

    def plugged(self) -> tuple[EntryPoint, ...]:
        """Return the entry points of other packages, in order of name, without importing them."""
        from importlib.metadata import entry_points  # takes 15 ms, and parts of this package need none

        return tuple(sorted(entry_points(group=f"xpsql.{self.name}s"), key=lambda point: point.name))

    def load(self, point: EntryPoint, position: Position | None) -> AnyPart:
        """Import a plugin.

        Raises:
            StatementError: it cannot be imported, or is no part of that name.
        """
        package = point.dist.name if point.dist else point.module
        try:
            part = point.load()
        except Exception as error:
            message = f"The {self.name} {point.name} of package {package} cannot be imported: {error!r}."
            raise StatementError(f"{message} Repair or remove that package.", position) from error
        if not isinstance(part, Part) or part.name != point.name.lower():
            raise StatementError(
                f"The {self.name} {point.name} of package {package} must be a Part of that name, got {part!r}. "
                "Update or remove that package.",
                position,
            )
        return part

    def options(self, part: AnyPart, given: dict[str, Value]) -> Any:
        """Return a part's options object for the options given in a statement."""
        return parse(part.options, part.read(given), Subject.of_part(self.name, part.name))


def algorithms() -> Registry[AnyPart]:
    from ..algorithms import ALGORITHMS

    return ALGORITHMS


def operators() -> Registry[AnyPart]:
    from .operators import OPERATORS

    return OPERATORS


ALGORITHM = PartKind("algorithm", algorithms)
OPERATOR = PartKind("operator", operators)
