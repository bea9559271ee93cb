"""The schema of a model's input for the encoder: slots, their kinds, and the columns' roles."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.augments.pairs import PAIRS, PAIRS_NUMBER
from ...algorithms.blocks.base import SlotBlock, SlotsOf
from ...algorithms.blocks.searched import SEARCHED
from ...algorithms.inputs import Layout
from ...warehouse.entries import SlotEntry
from ...warehouse.manifest import Manifest
from ..errors import StatementError, Subject
from ..histories.bound import BoundHistory, filled
from ..reserved import INTERCEPT_NUMBER
from ..trees.tree import TREE, TREE_NUMBER
from .kinds import blocks, kind_named
from .kinds.base import BagKind, BlockKind, DenseKind, Kind, ScalarKind
from .kinds.events import PAST, PAST_MOMENT
from .kinds.sequence import SEQUENCE
from .side.table import Side
from .slot import Slot

if TYPE_CHECKING:
    from ...warehouse.version import Version

INTERCEPT = "(intercept)"
INTERCEPT_KIND = "intercept"
OFFERED_KIND = "offered"
SHOWN_CLASSES = 10
TREE_KIND = "tree"
PAIRS_KIND = "pairs"
MADE_KINDS = INTERCEPT_KIND, OFFERED_KIND, TREE_KIND, PAIRS_KIND  # of slots that no column of a query is

K = TypeVar("K", bound=Kind)
Record = list[tuple[Slot, BlockKind]]
"""The slots of a record of a block, with their kinds."""


class Classes(NamedTuple):
    """The classes of a label, in order: its number is a class's place.

    Attributes:
        values: texts or integers.
        type: of the label's column, by Arrow's name.
        known: whether the classes are known; else values stand for two of them, until the label is read.
    """

    values: tuple[str | int, ...]
    type: str
    known: bool = True

    @property
    def array(self) -> pa.Array:
        """The classes in the label's type."""
        return pa.array(self.values, self.arrow_type)

    @property
    def arrow_type(self) -> pa.DataType:
        """The label's type."""
        return pa.type_for_alias(self.type)

    @property
    def text(self) -> str:
        """The classes in words, of many the first."""
        shown = ", ".join(repr(value) for value in self.values[:SHOWN_CLASSES])
        return shown if len(self.values) <= SHOWN_CLASSES else f"{shown}, ... ({len(self.values)} in all)"

    def as_columns(self, probabilities: NDArray[np.float32]) -> list[pa.Array]:
        """Return the likeliest class of each example, and a map from each class to its probability.

        Args:
            probabilities: float32[n, classes].
        """
        classes, (rows, count) = self.array, probabilities.shape
        offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * count)
        keys = classes.take(pa.array(np.tile(np.arange(count), rows)))
        values = pa.array(probabilities.reshape(-1).astype(np.float64))
        return [classes.take(pa.array(probabilities.argmax(axis=1))), pa.MapArray.from_arrays(offsets, keys, values)]


@dataclass(frozen=True)
class Columns:
    """How a model reads a query's columns: its slots and the columns with another role; the algorithm tells of an intercept.

    `offered` are the inputs made of what operators offer of features: of each categorical slot, then of each multi-valued and
    weighted one, as many as operators offer. `grouped` and `by`: what an evaluation reads, the GROUP column and that of BY.
    `standardised`: labels are learned in standard deviations from their mean, as the algorithm tells. `chained`: a label can
    be 1 only where the one before it is. `classes`: the label's classes, where it has several. `sides`: the vectors with
    ids that values of slots have. `tree`: the algorithm keeps a tree of the items, whose nodes have rows. `pairs`: it makes
    pairs of items, beside the slots. `histories`: stored histories whose fields are slots; rows have their user and time
    instead. `ends`: rows are edges, and both columns have values of the one slot.
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
    chained: bool = False
    classes: Classes | None = None
    sides: tuple[Side, ...] = ()
    tree: bool = False
    pairs: bool = False
    histories: tuple[BoundHistory, ...] = ()
    ends: tuple[str, str] | None = None

    def of(self, place: type[K]) -> list[tuple[Slot, K]]:
        """Return the slots whose kinds have a place in chunks, one of the classes of kinds, and the kinds."""
        pairs = ((slot, kind_named(slot.kind)) for slot in self.slots)
        return [(slot, kind) for slot, kind in pairs if isinstance(kind, place)]

    def only(self, names: Sequence[str]) -> Columns:
        """Return how some slots are read alone."""
        slots = tuple(slot for slot in self.slots if slot.name in names)
        there = {slot.column for slot in slots}
        histories = tuple(one for one in self.histories if there & one.columns.keys())
        nothing: dict[str, Any] = {"weight": None, "time": None, "group": None, "by": None, "classes": None}
        return replace(
            self, slots=slots, labels=(), offered=(), sides=(), intercept=False, grouped=False, histories=histories, **nothing
        )

    @property
    def scalar(self) -> tuple[Slot, ...]:
        """The slots of at most one feature per example."""
        return tuple(slot for slot, _ in self.of(ScalarKind))

    @property
    def bags(self) -> tuple[Slot, ...]:
        """The slots of any number of features per example, in no order."""
        return tuple(slot for slot, _ in self.of(BagKind))

    @property
    def continuous(self) -> tuple[Slot, ...]:
        """The slots of numbers that are standardised."""
        return tuple(slot for slot, kind in self.of(DenseKind) if not kind.raw)

    @property
    def vectors(self) -> tuple[Slot, ...]:
        """The slots of numbers that are learned as they are, `dim` of them per example."""
        return tuple(slot for slot, kind in self.of(DenseKind) if kind.raw)

    @property
    def raw(self) -> tuple[Slot, ...]:
        """The slots whose numbers are learned as they are."""
        return tuple(slot for slot, kind in self.of(Kind) if kind.raw)

    @property
    def features(self) -> tuple[Slot, ...]:
        """The slots whose values are features."""
        return tuple(slot for slot, kind in self.of(Kind) if kind.features)

    @property
    def blocks(self) -> list[tuple[SlotBlock[Any, Any, Any], list[Record]]]:
        """The blocks that have slots, and the slots of each of their records, with their kinds."""
        blocked = self.of(BlockKind)
        found = ((block, [pair for pair in blocked if pair[1].block is block]) for block in (blocks() if blocked else ()))
        return [(block, records_of(block, pairs)) for block, pairs in found if pairs]

    def records(self, block: SlotBlock[Any, Any, Any]) -> list[Record]:
        """Return the slots of each record of a block, those of one in the order of the query."""
        return next((records for own, records in self.blocks if own is block), [])

    @property
    def layout(self) -> Layout:
        """The slots as algorithms see them."""

        def names(slots: Iterable[Slot]) -> tuple[str, ...]:
            return tuple(slot.name for slot in slots)

        vectors = tuple((slot.name, slot.dim) for slot in self.vectors)
        continuous = (*names(self.offered), *names(self.continuous))
        classes = 0 if self.classes is None else len(self.classes.values)
        placed = tuple(
            SlotsOf(block, tuple(block.layout([slot for slot, _ in record]) for record in records))
            for block, records in self.blocks
        )
        sides = tuple(side.layout for side in self.sides)
        return Layout(
            names(self.scalar),
            names(self.bags),
            continuous,
            vectors,
            self.labels,
            placed,
            classes,
            sides,
            len(self.offered),
        )

    def sources(self, side: Side) -> dict[int, Slot]:
        """Return the numbers of the slots whose rows have features with these vectors."""
        slots = {slot.name: slot for slot in self.slots}
        return {source.number: source for source in (slots[slots[name].source] for name in side.slots)}

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that scoring needs."""
        stored = {column: history.reads for history in self.histories for column in history.columns}
        needed = ((slot.column, *stored.get(slot.column, ())) for slot in self.slots if not slot.members)
        return tuple(dict.fromkeys(name for column, *reads in needed for name in (reads or (column,))))

    def filled(self, table: pa.Table) -> pa.Table:
        """Return rows with the fields of stored histories."""
        return filled(table, self.histories) if self.histories else table

    @property
    def crosses(self) -> tuple[Slot, ...]:
        """The slots that combine others."""
        return tuple(slot for slot in self.slots if slot.members)

    @property
    def searched(self) -> bool:
        """Whether histories are searched, which neighbouring rows do not have in common."""
        return any(slot.role == SEARCHED for slot in self.slots)

    @property
    def whole(self) -> Columns:
        """The same as an export has it: histories are read whole, not searched, which its graph does; and rows bring all events
        of users, none of which is in a stored history."""
        slots = (replace(slot, role=SEQUENCE.role) if slot.role == SEARCHED else slot for slot in self.slots)
        kept = tuple(slot for slot in slots if slot.role not in (PAST.role, PAST_MOMENT.role))
        there = {slot.column for slot in kept}
        return replace(self, slots=kept, histories=tuple(one for one in self.histories if there & one.columns.keys()))

    @property
    def scaled(self) -> tuple[str, ...]:
        """The columns that are standardised: continuous slots, then labels."""
        return (*(slot.name for slot in self.continuous), *(self.labels if self.standardised else ()))

    @property
    def learned(self) -> tuple[str, ...]:
        """The columns that training needs."""
        needed = (
            *(self.ends or self.inputs),
            *self.labels,
            self.weight,
            self.time,
            self.group if self.grouped else None,
            self.by,
        )
        return tuple(dict.fromkeys(column for column in needed if column))

    @property
    def intercept_slot(self) -> tuple[Slot, ...]:
        """The slot of the intercept, if the model has one."""
        return (Slot(INTERCEPT, INTERCEPT_KIND, "", INTERCEPT_NUMBER, INTERCEPT),) if self.intercept else ()

    @property
    def all_slots(self) -> tuple[Slot, ...]:
        """The slots that rows belong to."""
        return (*self.slots, *self.offered, *self.intercept_slot, *self.tree_slot, *self.pairs_slot)

    @property
    def tree_slot(self) -> tuple[Slot, ...]:
        """The slot of a tree's nodes, if the model has one."""
        return (Slot(TREE, TREE_KIND, "", TREE_NUMBER, TREE),) if self.tree else ()

    @property
    def pairs_slot(self) -> tuple[Slot, ...]:
        """The slot of pairs that stand beside others, if the model has them."""
        return (Slot(PAIRS, PAIRS_KIND, "", PAIRS_NUMBER, PAIRS),) if self.pairs else ()

    @property
    def slot_names(self) -> dict[int, str]:
        """Slot number -> name."""
        return {slot.number: slot.name for slot in self.all_slots}


def records_of(block: SlotBlock[Any, Any, Any], pairs: Sequence[tuple[Slot, BlockKind]]) -> list[Record]:
    """Return the slots of each record of a block."""
    if block.single:
        return [list(pairs)]
    if not block.aligned:
        return [[pair] for pair in pairs]
    ordered = sorted(pairs, key=lambda pair: pair[0].group)
    return [list(record) for _, record in itertools.groupby(ordered, key=lambda pair: pair[0].group)]


def slot_of(entry: SlotEntry) -> Slot:
    """Return the slot that a manifest describes."""
    e = entry
    share = e.share or e.name
    return Slot(e.name, e.kind, e.type, e.number, share, e.hashed, e.dim, e.role, e.group, e.length, e.field, e.members, e.raw)


def columns_from(manifest: Manifest) -> Columns:
    """Return the slots and roles of a trained version."""
    slots = list(map(slot_of, manifest.slots))
    return Columns(
        tuple(slot for slot in slots if slot.kind not in MADE_KINDS),
        manifest.roles.labels,
        manifest.roles.weight,
        manifest.roles.time,
        manifest.roles.group,
        manifest.roles.ignore,
        manifest.settings.get("nulls", "feature") == "feature",
        any(slot.kind == INTERCEPT_KIND for slot in slots),
        tuple(slot for slot in slots if slot.kind == OFFERED_KIND),
        standardised=bool(manifest.roles.labels) and set(manifest.roles.labels) <= set(manifest.statistics.get("scaled", ())),
        classes=Classes(manifest.roles.classes, manifest.roles.class_type) if manifest.roles.classes else None,
        sides=tuple(Side(one.name, one.slots, one.hidden, one.elements) for one in manifest.vectors),
        tree=any(slot.kind == TREE_KIND for slot in slots),
        pairs=any(slot.kind == PAIRS_KIND for slot in slots),
        histories=tuple(map(BoundHistory, manifest.histories)),
    )


def columns_in(version: Version) -> Columns:
    """Return the slots and roles of a version that reads the stored histories of its warehouse."""
    columns = columns_from(version.manifest)
    if not columns.histories:
        return columns
    return replace(columns, histories=tuple(one.located(version.folder.parents[2]) for one in columns.histories))


def require_features(columns: Columns, names: Iterable[str], subject: Subject) -> None:
    """Refuse slots that an operator's option names and whose values are not features."""
    valid = {slot.name.lower() for slot in (*columns.scalar, *columns.bags)}
    known = {slot.name.lower(): slot for slot in columns.slots}
    for name in names:
        if name.lower() not in valid and (slot := known.get(name.lower())) is not None:
            raise StatementError(
                f"{subject} names {name}, which is {slot.kind} ({slot.type}); categories, and arrays and maps of them, have "
                "rates. Make categories of it: bucketize, or a CAST to STRING.",
                subject=subject,
            )
