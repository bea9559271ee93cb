"""The roles of a training query's columns, as its statement gives them."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import Subject
from ..options import Named
from .crossed.terms import Term

LABEL, WEIGHT, TIME, GROUP, IGNORE, CROSS = map(Subject, ("LABEL", "WEIGHT", "TIME", "GROUP", "IGNORE", "CROSS"))
SOURCE, TARGET = Subject("SOURCE"), Subject("TARGET")
BY = Subject("EVALUATE", option="BY")
HASHED, RAW, SHARE, TASK, VECTORS = (Subject("WITH", option=option) for option in ("hashed", "raw", "share", "task", "vectors"))


class Roles(NamedTuple):
    """The columns that a statement names; all others are slots.

    Attributes:
        labels: to predict; none for algorithms that learn without labels.
        weight, time, group: of examples.
        by: EVALUATE's BY; None where it has none.
        ignore: carried, not learned from.
        hashed: ready-made ids.
        raw: ready-made ids that are keys.
        share: (slot, the slot whose rows it uses).
        nulls: whether a NULL of a categorical slot is a feature.
        grouped: metrics are by group, too.
        named: the columns that options of the algorithm name; columns of one option are a group.
        algorithm: its name.
        crosses: what is combined of the slots.
        multiclass: the label is one of several classes, whatever its type.
        vectors: (slot, the vectors with ids that its values have).
        named_vectors: the names of the vectors that the statement gives.
        hidden: units of the hidden layers that such vectors go through.
        positive: the column that says which rows were taken, which are all that is learned.
        computed: those that the query does not return, but a clause computes.
        source, target: the ends of edges; None where a statement names none.
    """

    labels: tuple[str, ...]
    weight: str | None
    time: str | None
    group: str | None
    by: str | None
    ignore: tuple[str, ...]
    hashed: tuple[str, ...]
    share: tuple[tuple[str, str], ...]
    nulls: bool
    grouped: bool
    named: tuple[Named, ...] = ()
    algorithm: str = ""
    crosses: tuple[Term, ...] = ()
    multiclass: bool = False
    vectors: tuple[tuple[str, str], ...] = ()
    named_vectors: tuple[str, ...] = ()
    hidden: tuple[int, ...] = ()
    raw: tuple[str, ...] = ()
    positive: str | None = None
    computed: tuple[str, ...] = ()
    source: str | None = None
    target: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are no slots."""
        single = (self.positive, self.weight, self.time, self.group, self.by)
        named = (column for column in single if column is not None and column not in self.computed)
        return (*self.labels, *named, *self.ignore)

    def subject(self, named: Named) -> Subject:
        """Return the option that names columns."""
        return Subject("USING", self.algorithm, named.option)
