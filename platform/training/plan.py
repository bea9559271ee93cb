"""What a training statement says, checked: the input of `train`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from ..histories.bound import BoundHistory
from ..input.kinds.events import MOMENT, PAST_MOMENT, USER
from ..input.roles import Roles
from ..input.streams.base import StreamQuery
from ..options import Named, events_read, named_columns
from ..parts import AnyPart
from .clauses.base import Clause, Values
from .clauses.column_roles import EDGE_SOURCE, EDGE_TARGET, GROUP, IGNORE, TIME
from .clauses.cross import CROSS
from .clauses.evaluate import EVALUATE
from .clauses.label import LABEL
from .clauses.settings import Settings
from .clauses.vectors import VECTORS
from .clauses.weight import BY_AGE, WEIGHT

R = TypeVar("R")
V = TypeVar("V")
STORED = "(stored histories)"
"""Among the values of clauses, where no clause says them."""


@dataclass(frozen=True)
class Use:
    """A part as a statement uses it: its name, the options given, and the options object with defaults filled in.

    `on`: the tables that an operator acts on, `dense` for dense parameters; empty for all. `part`: one that no statement names.
    """

    name: str
    given: Mapping[str, Any]
    options: Any
    on: tuple[str, ...] = ()
    part: AnyPart | None = None


@dataclass(frozen=True)
class Plan:
    """A training: statement text, model, parts, clauses, and the query.

    Attributes:
        statement: its text.
        operators: those of OPERATORS, in order.
        query: what is learned, with TRANSFORM around it.
        settings: the options of WITH; `share` is a tuple of (slot, slot whose rows it uses).
        clauses: what else it says; `clause` gives it with its type.
        parent: the version that it continues.
        replace: the version takes the place of all before it.
        stream: what the query reads grows.
        passing: the query reads what goes with its statement, so that its rows are staged.
        inherited: options of the algorithm that the continued version gives, not the statement.
    """

    statement: str
    model: str
    algorithm: Use
    operators: tuple[Use, ...]
    query: str
    settings: Settings = field(default_factory=Settings)
    clauses: Values = field(default_factory=dict)
    parent: int | None = None
    replace: bool = False
    stream: StreamQuery | None = None
    passing: bool = False
    inherited: frozenset[str] = frozenset()

    def clause(self, clause: Clause[R, V]) -> V:
        """Return the value of a clause, its default where neither the statement nor the continued version has it."""
        return clause.of(self.clauses)

    def having(self, clause: Clause[R, V], value: V) -> Plan:
        """Return the same training with another value of a clause."""
        return replace(self, clauses={**self.clauses, clause.name: value})

    @property
    def _events(self) -> Iterator[Named]:
        """The columns of users and times, where the algorithm reads rows as events of users, and a history's own of times."""
        if length := events_read(self.algorithm.options):
            past = ((one.time_column, PAST_MOMENT.role) for one in self.histories)
            for column, role in ((self.clause(GROUP), USER.role), (self.clause(TIME), MOMENT.role), *past):
                if column is not None:
                    yield Named("events", (column,), role, length)

    @property
    def histories(self) -> tuple[BoundHistory, ...]:
        """The stored histories whose fields its options name, which are found when its statement runs."""
        return cast(tuple[BoundHistory, ...], self.clauses.get(STORED, ()))

    @property
    def roles(self) -> Roles:
        """The roles of the query's columns."""
        evaluate, settings, group, label = self.clause(EVALUATE), self.settings, self.clause(GROUP), self.clause(LABEL)
        vectors = self.clause(VECTORS)
        return Roles(
            labels=label.columns,
            weight=self.clause(WEIGHT).name,
            time=self.clause(TIME),
            group=group,
            by=evaluate.by if evaluate is not None else None,
            ignore=self.clause(IGNORE),
            hashed=settings.hashed,
            raw=settings.raw,
            share=settings.share,
            nulls=settings.nulls == "feature",
            grouped=evaluate is not None and group is not None,
            named=(*named_columns(self.algorithm.options), *self._events),
            algorithm=self.algorithm.name,
            crosses=self.clause(CROSS),
            multiclass=settings.task == "multiclass",
            vectors=settings.vectors,
            named_vectors=tuple(vectors),
            hidden=settings.vectors_hidden,
            positive=label.positive,
            computed=(BY_AGE,),
            source=self.clause(EDGE_SOURCE),
            target=self.clause(EDGE_TARGET),
        )
