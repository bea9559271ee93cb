"""Finding algorithms and operators by name: the built-in tuples first, then the entry points of other packages.

A package adds an operator with the entry point `xpsql.operators` (an algorithm: `xpsql.algorithms`) whose name is the part's
and whose object is a `Part`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import Position, StatementError, Subject, suggestion
from .options import Part, Value, parse

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

AnyPart = Part[Any, Any]


def built_in(kind: str) -> tuple[AnyPart, ...]:
    """Return the parts of this package; `kind` is "algorithm" or "operator"."""
    if kind == "algorithm":
        from ..algorithms import ALGORITHMS

        return ALGORITHMS
    from .operators import OPERATORS

    return OPERATORS


def find(kind: str, parts: tuple[AnyPart, ...], name: str, position: Position | None) -> AnyPart:
    """Return the part of this name, compared without case.

    Raises:
        StatementError: there is none, or the package that offers it fails; the message lists what there is.
    """
    for part in parts:
        if part.name == name.lower():
            return part
    plugins = {point.name.lower(): point for point in plugged(kind)}
    if name.lower() in plugins:
        return load(kind, plugins[name.lower()], position)
    valid = [part.name for part in parts] + list(plugins)
    raise StatementError(f"There is no {kind} {name!r}.{suggestion(name, valid)}", position)


def plugged(kind: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of other packages, in order of name, without importing them."""
    from importlib.metadata import entry_points  # takes 15 ms, and parts of this package need none

    return tuple(sorted(entry_points(group=f"xpsql.{kind}s"), key=lambda point: point.name))


def load(kind: str, point: EntryPoint, position: Position | None) -> AnyPart:
    """Import a plugin."""
    package = point.dist.name if point.dist else point.module
    try:
        part = point.load()
    except Exception as error:
        raise StatementError(
            f"The {kind} {point.name} of package {package} cannot be imported: {error!r}. Repair or remove that package.",
            position,
        ) from error
    if not isinstance(part, Part) or part.name != point.name.lower():
        raise StatementError(
            f"The {kind} {point.name} of package {package} must be a Part of that name, got {part!r}. "
            "Update or remove that package.",
            position,
        )
    return part


def options(kind: str, part: AnyPart, given: dict[str, Value]) -> Any:
    """Return a part's options object for the options given in a statement."""
    return parse(part.options, part.read(given), Subject.of_part(kind, part.name))
