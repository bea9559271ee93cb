"""Finding parts by name, algorithms, operators, folds, updates and readings: the built-in ones first, then plugins, the entry
points of other packages; folds and updates also in files of Python.

A package adds an operator with the entry point `xpsql.operators` (an algorithm: `xpsql.algorithms`, a fold: `xpsql.folds`, an
update: `xpsql.updates`, a reading: `xpsql.readings`) whose name is the part's and whose object is a `Part`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import ModelError, OptionError, Position, StatementError, Subject, suggestion
from .functions.source_text import SourceText, load, of_file
from .options import Part, Value, parse, written
from .trust import TRUST

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ..warehouse.manifest import Manifest
    from .registry import Registry

AnyPart = Part[Any, Any]
ROWS_ALONE = "parameters"
"""In place of an algorithm's name: of versions whose rows programs made, through a parameter server."""


@dataclass(frozen=True)
class PartKind:
    """A kind of parts that statements name: built-in ones, and plugins of other packages.

    Attributes:
        name: "algorithm", "operator", "fold", "update" or "reading".
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

    def found(self, name: str) -> AnyPart:
        """Return the part of this name that a call names; see find."""
        return self.find(name, None)

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

    def used(self, name: str, position: Position | None, given: Mapping[str, Value]) -> FunctionUse:
        """Return a fold or an update as a statement uses it, by its name or as `file.py:name`, its options checked.

        Raises:
            StatementError: there is no such part, or it does not take these options.
        """
        text, subject = "", Subject.of_part(self.name, name)
        if (file := file_of(name)) is not None:
            text = of_file(file, "function", position, subject).text
            TRUST.add(text)
        use = FunctionUse(name, {option: value.value for option, value in given.items()}, text)
        part = self.part_of(use, position)
        self.options(part, dict(given))
        return use if text else use._replace(name=part.name)

    def part_of(self, use: FunctionUse, position: Position | None = None) -> AnyPart:
        """Return the part that a statement used.

        Raises:
            StatementError: there is no such part.
            ModelError: its text came with a model, and nobody trusts it.
        """
        if not use.source:
            return self.find(use.name, position)
        file, _, name = use.name.rpartition(":")
        TRUST.check(use.source, file)
        subject = Subject.of_part(self.name, use.name)
        found = getattr(load(SourceText(use.source, file, "function", subject)), name, None)
        if not isinstance(found, Part):
            what = "nothing of that name" if found is None else repr(found)
            message = f"{file} must have a Part named {name}, such as {name} = Part('{name}', Options, make); it has {what}."
            raise OptionError(message, position, subject)
        return found

    def options_of(self, use: FunctionUse) -> Any:
        """Return the options object of a part that a statement used."""
        return self.options(self.part_of(use), written(use.options))


class FunctionUse(NamedTuple):
    """A fold or an update as a statement used it: its name, or file and name; the options that it gave; and the text of its
    file, empty where it is a part of a package."""

    name: str
    options: Mapping[str, Any]
    source: str = ""


def file_of(name: str) -> str | None:
    """Return the file of a name like `folder/mine.py:clip`; None where it names no file."""
    file, _, own = name.rpartition(":")
    return file if own.isidentifier() and file.endswith(".py") else None


def algorithms() -> Registry[AnyPart]:
    from ..algorithms import ALGORITHMS

    return ALGORITHMS


def operators() -> Registry[AnyPart]:
    from .operators import OPERATORS

    return OPERATORS


def folds() -> Registry[AnyPart]:
    from .functions import FOLDS

    return FOLDS


def updates() -> Registry[AnyPart]:
    from .functions import UPDATES

    return UPDATES


def readings() -> Registry[AnyPart]:
    from .functions import READINGS

    return READINGS


ALGORITHM = PartKind("algorithm", algorithms)
OPERATOR = PartKind("operator", operators)
FOLD = PartKind("fold", folds)
UPDATE = PartKind("update", updates)
READING = PartKind("reading", readings)


def part_in(manifest: Manifest) -> AnyPart:
    """Return the part of a trained version's algorithm.

    Raises:
        ModelError: programs made its rows, through a parameter server, and no algorithm of ours did.
        StatementError: its package is not installed.
    """
    if manifest.algorithm.name == ROWS_ALONE:
        raise ModelError(
            f"{manifest.model} has rows only, which a program learned through a parameter server: its scores, and how it goes "
            "on, are that program's. ML.WEIGHTS, ML.NEAREST and EXPORT MODEL read its rows, and xpsql.ps.local(..., begins = "
            f"{manifest.model!r}) goes on from them.",
            manifest.model,
        )
    return ALGORITHM.find(manifest.algorithm.name, None)
