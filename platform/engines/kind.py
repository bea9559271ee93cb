"""What a session must know about an engine before opening it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from .base import Engine, Statements
    from .tasks import Room

O = TypeVar("O")  # noqa: E741  the options dataclass of an engine


def never(given: Collection[str]) -> bool:
    return False


class PendingEngine(NamedTuple):
    """An engine that takes long to start, and is opened by the first statement that needs it.

    Attributes:
        name, statements: as the engine's.
        room: what its options tell of its tasks; None: nothing.
        open: opens it.
    """

    name: str
    statements: Statements
    room: Room | None
    open: Callable[[], Engine]


class EngineKind(NamedTuple, Generic[O]):
    """An engine as the tuple ENGINES holds it. Importing it imports no package that the engine needs.

    Attributes:
        name: as `--engine` and `xpsql.connect` take it.
        options: the dataclass that declares its options: keywords of `xpsql.connect`, options of the command line.
        open: (the warehouse's folder, options) -> the engine.
        prefers: (the names of the options given) -> whether a session that names no engine should have this one.
        adopt: (an object given as engine, the warehouse's folder) -> the engine on it; None: it takes its name alone.
        needs_pandas: whether the engine imports pandas itself.
        pend: as open, but for an engine that need not be there before a statement needs it; None: it opens at once.
    """

    name: str
    options: type[O]
    open: Callable[[Path, O], Engine]
    prefers: Callable[[Collection[str]], bool] = never
    adopt: Callable[[object, Path], Engine] | None = None
    needs_pandas: bool = False
    pend: Callable[[Path, O], Engine | PendingEngine] | None = None
