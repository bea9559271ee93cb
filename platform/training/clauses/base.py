"""The contract of clauses: what a statement says between the model's name and AS, and what of it a version keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import pyarrow as pa

from ....warehouse.entries import record
from ...errors import ModelError, Subject
from ...typed import has_types

if TYPE_CHECKING:
    from ....warehouse.manifest import Manifest
    from ...engines.spark_sql.cursor import Cursor

R = TypeVar("R")
V = TypeVar("V")
T = TypeVar("T")
Values = Mapping[str, object]
"""Word -> the value of its clause; `Clause.of` gives it with its type."""
Shown = Iterable[tuple[str, str | None]]


class ComputedColumn(Protocol):
    """A column that is computed of others.

    Attributes:
        field: its name and type; a column of the query that has this name is replaced.
        reads: the columns that it is computed of, by name, compared without case.
    """

    @property
    def field(self) -> pa.Field: ...

    @property
    def reads(self) -> tuple[str, ...]: ...

    def column(self, table: pa.Table) -> pa.Array:
        """Return its values for rows that have the columns `reads`, under these names."""
        ...


@dataclass(frozen=True)
class Clause(Generic[R, V]):
    """A clause: how it is read, what it means to a training, and what a version keeps of it.

    R is what the reader returns, V the value that a plan has.

    Attributes:
        name: its first word.
        grammar: what follows the word, as docs print it.
        help: what it means, in Markdown.
        read: reads what follows the word.
        default: the value where neither the statement nor the continued version has one.
        value: returns the value of what was read; None: the plan has it elsewhere, or the statement finds it when it runs.
        to_json: returns what a manifest keeps of a value; None: a manifest keeps it elsewhere.
        of_json: returns the value of what a manifest keeps; a TypeError, ValueError, KeyError or AttributeError says that it
            is damaged.
        inherits: returns what CONTINUE takes of its version's value, given whether the statement reads a stream; None: CONTINUE
            begins with the default.
        shown: returns the properties that DESCRIBE MODEL shows of a value.
        computes: returns the column that the value makes of each row, given the values of all clauses, or refuses them; None:
            it makes none. The preparation computes it wherever rows are read (preparation/computed.py).
        fit: returns the value with what all rows decide, given tables of the columns that `computes` reads; a manifest keeps
            it, so that RESUME has the same.
    """

    name: str
    grammar: str
    help: str
    read: Callable[[Cursor], R]
    default: V
    value: Callable[[R], V] | None = None
    to_json: Callable[[V], Any] | None = None
    of_json: Callable[[Any], V] | None = None
    inherits: Callable[[V, bool], V] | None = None
    shown: Callable[[V], Shown] | None = None
    computes: Callable[[V, Values], ComputedColumn | None] | None = None
    fit: Callable[[V, Iterable[pa.Table]], V] | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def subject(self) -> Subject:
        """The clause as errors name it."""
        return Subject(self.name)

    def of(self, values: Values) -> V:
        """Return its value among those of a plan."""
        return cast(V, values.get(self.name, self.default))

    def kept(self, manifest: Manifest) -> V:
        """Return the value that a version keeps.

        Raises:
            ModelError: no training writes such a value.
        """
        found = manifest.clauses.get(self.name)
        if found is None or self.of_json is None:
            return self.default
        try:
            return self.of_json(found)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ModelError(
                f"The manifest of {manifest.model} v{manifest.version} is damaged: its clause {self.name} is {found!r} "
                f"({error}). Restore it from a backup, or drop the version."
            ) from error

    def entry(self, values: Values) -> dict[str, Any]:
        """Return what a manifest keeps, by its word; nothing for the default."""
        value = self.of(values)
        return {} if self.to_json is None or value == self.default else {self.name: self.to_json(value)}

    def properties(self, manifest: Manifest) -> Shown:
        """Return what DESCRIBE MODEL shows of a version's value."""
        return () if self.shown is None else self.shown(self.kept(manifest))


AnyClause = Clause[Any, Any]


def same(value: T) -> T:
    """Return the value: what was read is what a plan has."""
    return value


def always(value: T, stream: bool) -> T:
    """Inherit a value from the continued version."""
    return value


def of_tables(value: T | None, stream: bool) -> T | None:
    """Inherit a value where the statement reads no stream."""
    return None if stream else value


def as_record(value: Any) -> dict[str, Any] | None:
    """Return a record as JSON has it."""
    return None if value is None else dataclasses.asdict(value)


def record_of(kind: type[T]) -> Callable[[Any], T]:
    """Return what makes a record of JSON; see Clause.of_json."""

    def made(values: Any) -> T:
        found = record(kind, dict(values))
        if not has_types(found, kind):
            raise ValueError("a value has another type")
        return found

    return made


def of_type(kind: type[T], hint: Any = None) -> Callable[[Any], T]:
    """Return what takes a value of JSON that has a type, a list for a tuple; see Clause.of_json."""

    def taken(value: Any) -> T:
        found = tuple(value) if isinstance(value, list) else value
        if not has_types(found, hint or kind):
            raise ValueError("it has another type")
        return cast(T, found)

    return taken


def named(name: str) -> Callable[[str | None], Shown]:
    """Return what shows a text as a property."""

    def shown(value: str | None) -> Shown:
        return ((name, value),)

    return shown
