"""Registries: parts by name, declared in one place and imported when one is asked for, so that no process loads what it does
not use; and what the statements of a part take."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from typing import NamedTuple, Protocol, TypeVar


class Takes(NamedTuple):
    """What the statements of an algorithm take.

    Attributes:
        labels: NEEDED: LABEL names what it predicts; OPTIONAL: it learns without any, too; TAKEN: LABEL, where there is one,
            says which rows were taken; NONE: LABEL has no effect.
        edges: its rows are edges alone, whose ends SOURCE and TARGET name.
        shards: it learns batch by batch, from shards; else from all examples at once.
    """

    labels: str
    edges: bool = False
    shards: bool = True


NEEDED, OPTIONAL, TAKEN, NONE = "needed", "optional", "taken", "none"
LABELLED, UNLABELLED, MAYBE_LABELLED, POSITIVE = Takes(NEEDED), Takes(NONE), Takes(OPTIONAL), Takes(TAKEN)
AT_ONCE, EDGES = Takes(NEEDED, shards=False), Takes(NONE, edges=True, shards=False)


class NamedPart(Protocol):
    """What a registry holds."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=NamedPart)


class Registry(Collection[T]):
    """Parts in an order. Going through them imports all; `names` and `find` do not.

    Args:
        package: where their modules are.
        places: name -> the part's module and object in the package, "linear.fm.FM".
        parts: others, which follow.
    """

    def __init__(self, package: str, places: Mapping[str, str], parts: Mapping[str, T] | None = None) -> None:
        self._package, self._places, self._parts = package, places, parts or {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parts."""
        return (*self._places, *self._parts)

    def find(self, name: str) -> T | None:
        """Return the part of a name; None where there is none."""
        if (place := self._places.get(name)) is None:
            return self._parts.get(name)
        module, _, part = place.rpartition(".")
        found: T = getattr(import_module(f".{module}", self._package), part)
        assert found.name == name, f"{place} is named {found.name!r}, and declared as {name!r}"
        return found

    def adding(self, *parts: T) -> Registry[T]:
        """Return a registry that has other parts, too."""
        return Registry(self._package, self._places, {**self._parts, **{part.name: part for part in parts}})

    def __iter__(self) -> Iterator[T]:
        return (part for part in map(self.find, self.names) if part is not None)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, part: object) -> bool:
        return any(part is one for one in self)
