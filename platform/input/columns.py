"""The columns of a training's query as its encoder needs them: slots, their kinds, and roles."""

from __future__ import annotations

from dataclasses import dataclass

from ...warehouse.manifest import Manifest
from ..operators.base import INTERCEPT_NUMBER

INTERCEPT = "(intercept)"


INTERCEPT_KIND = "intercept"


OFFERED_KIND = "offered"


@dataclass(frozen=True)
class Slot:
    """A feature column.

    Attributes:
        name: the column.
        kind: categorical, continuous, multi-valued, weighted or vector.
        type: the column's, in Spark's words.
        number: as stored with each row.
        source: the slot whose rows it uses; its own name unless shared.
        hashed: values are ready-made 64-bit ids.
        dim: elements of a vector; 0 until the first batch tells, and for other kinds.
    """

    name: str
    kind: str
    type: str
    number: int
    source: str
    hashed: bool = False
    dim: int = 0


@dataclass(frozen=True)
class Columns:
    """How a model reads a query's columns: its slots and the columns with another role; the algorithm tells of an intercept.

    `offered` are the inputs made of what operators offer of features: of each categorical slot, then of each multi-valued and
    weighted one, as many as operators offer. `grouped` and `by`: what an evaluation reads, the GROUP column and that of BY.
    `standardised`: labels are learned in standard deviations from their mean, as the algorithm tells.
    """

    slots: tuple[Slot, ...]
    labels: tuple[str, ...]
    weight: str | None
    time: str | None
    group: str | None
    ignore: tuple[str, ...]
    null_features: bool
    intercept: bool = False
    offered: tuple[Slot, ...] = ()
    grouped: bool = False
    by: str | None = None
    logarithmic: bool = False
    standardised: bool = False

    def of_kind(self, *kinds: str) -> tuple[Slot, ...]:
        return tuple(slot for slot in self.slots if slot.kind in kinds)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that scoring needs."""
        return tuple(slot.name for slot in self.slots)

    @property
    def scaled(self) -> tuple[str, ...]:
        """The columns that are standardised: continuous slots, then labels."""
        return (*(slot.name for slot in self.of_kind(CONTINUOUS)), *(self.labels if self.standardised else ()))

    @property
    def learned(self) -> tuple[str, ...]:
        """The columns that training needs."""
        needed = (*self.inputs, *self.labels, self.weight, self.time, self.group if self.grouped else None, self.by)
        return tuple(dict.fromkeys(column for column in needed if column))

    @property
    def intercept_slot(self) -> tuple[Slot, ...]:
        """The slot of the intercept, if the model has one."""
        return (Slot(INTERCEPT, INTERCEPT_KIND, "", INTERCEPT_NUMBER, INTERCEPT),) if self.intercept else ()

    @property
    def all_slots(self) -> tuple[Slot, ...]:
        """The slots that rows belong to."""
        return (*self.slots, *self.offered, *self.intercept_slot)

    @property
    def slot_names(self) -> dict[int, str]:
        """Slot number -> name."""
        return {slot.number: slot.name for slot in self.all_slots}


def columns_from(manifest: Manifest) -> Columns:
    """Return the slots and roles of a trained version."""
    slots = [Slot(s.name, s.kind, s.type, s.number, s.share or s.name, s.hashed, s.dim) for s in manifest.slots]
    return Columns(
        tuple(slot for slot in slots if slot.kind not in (INTERCEPT_KIND, OFFERED_KIND)),
        manifest.labels,
        manifest.weight,
        manifest.time,
        manifest.group,
        manifest.ignore,
        manifest.settings.get("nulls", "feature") == "feature",
        any(slot.kind == INTERCEPT_KIND for slot in slots),
        tuple(slot for slot in slots if slot.kind == OFFERED_KIND),
        standardised=bool(manifest.labels) and set(manifest.labels) <= set(manifest.statistics.get("scaled", ())),
    )


CATEGORICAL, CONTINUOUS, MULTI, WEIGHTED, VECTOR = "categorical", "continuous", "multi-valued", "weighted", "vector"
