"""The records in a manifest."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

R = TypeVar("R")


@dataclass(frozen=True)
class PartEntry:
    """An algorithm or operator as the statement used it, with the options that it gave, and what an operator acts on."""

    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    on: tuple[str, ...] = ()


@dataclass(frozen=True)
class SlotEntry:
    """A feature column.

    Attributes:
        kind: of its encoding; type: in Spark's words; number: in rows.
        share: whose rows it uses; hashed, raw: its values are ready-made ids; dim: the elements of a vector.
        role: what an option of the algorithm names it for; group: that option; length: how many elements of it are read.
        field: of an array of structs, the field.
        members: of a cross, the slots that it combines.
    """

    name: str
    kind: str = ""
    type: str = ""
    number: int = 0
    share: str | None = None
    hashed: bool = False
    dim: int = 0
    role: str = ""
    group: str = ""
    length: int = 0
    field: str = ""
    members: tuple[str, ...] = ()
    raw: bool = False


@dataclass(frozen=True)
class TableEntry:
    """A table of rows: floats per weight, and its float columns with the floats of each; "w" holds what readers need."""

    name: str
    dim: int = 1
    columns: Mapping[str, int] = field(default_factory=dict)


class Split(Protocol):
    """A piece of the input, the same whenever it is read; one that compares equal to another is the same piece.

    Attributes:
        rows: how many it has, at most where the scan that reads it is not exact.
        where: what it is, as messages call it.
    """

    @property
    def rows(self) -> int: ...

    @property
    def where(self) -> str: ...


@dataclass(frozen=True)
class RowGroup:
    """A row group of a Parquet file as it was: its bytes, and when it was modified, in nanoseconds; see Split."""

    path: str
    size: int = 0
    modified: int = 0
    row_group: int = 0
    rows: int = 0

    @property
    def where(self) -> str:
        """The row group and its file."""
        return f"row group {self.row_group} of {self.path}"


def read_by(made: Callable[[Any], Any]) -> Mapping[str, Any]:
    """Return the metadata of a field that a function reads from JSON."""
    return {"read": lambda value: None if value is None else made(value)}


def many(kind: type[Any]) -> Mapping[str, Any]:
    """Return the metadata of a field that holds a tuple of records."""
    return read_by(lambda values: tuple(record(kind, value) for value in values))


def one(kind: type[Any]) -> Mapping[str, Any]:
    """Return the metadata of a field that holds a record."""
    return read_by(lambda value: record(kind, value))


def record(kind: type[R], values: Mapping[str, Any]) -> R:
    """Make a record of the values whose fields it has."""
    fields = {f.name: f for f in dataclasses.fields(kind) if f.name in values}  # type: ignore[arg-type]
    return kind(**{name: f.metadata.get("read", _same)(values[name]) for name, f in fields.items()})


def _same(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class DenseEntry:
    """A dense parameter: its shape, and what is kept: the arrays of its optimizer's state, and its values "w". One that is
    `train_only` is for versions that continue this one; predictions and exports do without it."""

    name: str
    shape: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()
    train_only: bool = False


@dataclass(frozen=True)
class RoundEntry:
    """A round of a training: its passes, the number of the best of them, and what that came to on the rows held out, recall
    where a tree was made anew; state, next_epoch: until the version is there, the checksum of what RESUME needs to begin the
    next one, and its epoch; held: what follows learns the rows held out."""

    passes: int
    best_pass: int = 0
    recall: float = 0.0
    state: int = 0
    next_epoch: int = 0
    held: bool = False


@dataclass(frozen=True)
class HistoryEntry:
    """A stored history whose fields options of the algorithm name.

    Attributes:
        version: that the training read; position: of streams, up to which it has their events; sums: of its files.
        partition, order: the columns of rows that say whose history it is, and before when.
        fields: that are read.
        keep: how many events at most; within: how old at most, as CREATE HISTORY has it.
    """

    name: str
    version: int = 0
    position: Mapping[str, Any] = field(default_factory=dict)
    sums: Mapping[str, str] = field(default_factory=dict)
    partition: str = ""
    order: str = ""
    fields: tuple[str, ...] = ()
    keep: int = 0
    within: str | None = None

    @property
    def text(self) -> str:
        """What it is, in words."""
        return f"version {self.version} ({', '.join(self.fields)}), by {self.partition} before {self.order}"


@dataclass(frozen=True)
class RolesEntry:
    """The columns of a query that are no slots, as it calls them.

    Attributes:
        labels: to predict; none of a model that learns without.
        classes: of the label, in order, where it is one of several; class_type: of its column, by Arrow's name.
        weight, time, group: of examples; by: of EVALUATE's BY; ignore: not learned from.
        histories: stored ones, whose fields are slots.
    """

    labels: tuple[str, ...] = ()
    classes: tuple[Any, ...] = ()
    class_type: str = ""
    weight: str | None = None
    time: str | None = None
    group: str | None = None
    by: str | None = None
    ignore: tuple[str, ...] = ()
    histories: tuple[HistoryEntry, ...] = field(default=(), metadata=many(HistoryEntry))


@dataclass(frozen=True)
class SizesEntry:
    """What a training runs with: examples of a batch, passes, shards and workers, and examples in all, if known."""

    batch_size: int = 0
    passes: int = 0
    shards: int = 0
    workers: int = 0
    examples: int | None = None


@dataclass(frozen=True)
class OptionEntry:
    """An option as it was used.

    Attributes:
        clause: USING, OPERATORS or WITH; part: the algorithm or operator, "" of WITH.
        by: who chose the value: `user`, the statement or one that it continues; `default`; or `rule`, by rows, slots or cores.
    """

    clause: str
    part: str
    name: str
    value: Any = None
    by: Literal["user", "default", "rule"] = "default"


@dataclass(frozen=True)
class SourceEntry:
    """What a query reads.

    Attributes:
        kind: table, files, topic, delta, or another one of the engine's.
        name: as the statement calls it.
        snapshot: the version of a table; "" where it has none.
        files, bytes: how many and how large, as far as is known.
        digest: XXH3 of 128 bits over path, size and time of modification of each file, in order of path: whether they are
            the same files, not what is in them.
        position: of a stream, where what was learned begins and ends.
    """

    kind: str
    name: str
    snapshot: str = ""
    files: int = 0
    bytes: int = 0
    digest: str = ""
    position: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CalibratorEntry:
    """What log odds of a label's predictions become: linear between knots `at`, which become `to`, of a slope beyond them.

    Attributes:
        method: how it was fitted; "" where there were no rows of either label.
    """

    label: str
    method: str = ""
    at: tuple[float, ...] = (0.0,)
    to: tuple[float, ...] = (0.0,)
    slope: float = 1.0


@dataclass(frozen=True)
class AppliedEntry:
    """An update that made a version of another one (ALTER MODEL ... APPLY).

    Attributes:
        name: of the update, or its file and name; options: that the statement gave; sha256: of the file's text, "" without one.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    sha256: str = ""


@dataclass(frozen=True)
class MergedEntry:
    """A source of a version that MERGE MODEL made.

    Attributes:
        source: a model and version, or a folder; identity: see Manifest.identity.
        examples: that it learned since the version that all sources go back to.
        rows: of its first table; only_here: that no other source has; shared: that others have, too.
        weight: its share of the means; distance: the L2 norm of what it changed of weights.
    """

    source: str
    identity: str = ""
    examples: int = 0
    rows: int = 0
    only_here: int = 0
    shared: int = 0
    weight: float = 0.0
    distance: float = 0.0


@dataclass(frozen=True)
class StreamEntry:
    """How far a version has learned from streams.

    Attributes:
        name: the stream that it learns from, whose splits are in the version's log of segments; None: it learns from none.
        position: by the name of a stream, how far it and its ancestors have learned from it.
    """

    name: str | None = None
    position: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class OriginEntry:
    """Where a version's rows come from, beside what it has learned.

    Attributes:
        lineage: the identities (Manifest.identity) of the versions that it goes back to, the oldest first, also of other
            warehouses.
        copied: the identity of the version of another warehouse whose copy it is (IMPORT MODEL); "" where it is none.
        applied: the updates that made its rows of its parent's, in order; merged: what it was merged of.
    """

    lineage: tuple[str, ...] = ()
    copied: str = ""
    applied: tuple[AppliedEntry, ...] = field(default=(), metadata=many(AppliedEntry))
    merged: tuple[MergedEntry, ...] = field(default=(), metadata=many(MergedEntry))


@dataclass(frozen=True)
class LearnedEntry:
    """How much a version has learned.

    Attributes:
        examples: learned from by this version, all passes; `examples_total` adds its ancestors'.
        rows: how many keys have rows, in the first table.
        base_rate: mean label of all examples so far, for the information of features.
        best_pass: the number of the pass that VALIDATE keeps, from 0. held_out: how VALIDATE's rows were learned then, all or
            rest; None: not. rounds: of a training that made its tree anew, or is about to learn the rows held out.
        origin: where its rows come from beside that.
        calibration: of predictions in order, in parts of equal size: mean prediction, mean label, examples.
    """

    examples: int = 0
    examples_total: int = 0
    rows: int = 0
    base_rate: float | None = None
    best_pass: int | None = None
    held_out: str | None = None
    rounds: tuple[RoundEntry, ...] = field(default=(), metadata=many(RoundEntry))
    calibration: tuple[tuple[float, float, int], ...] = ()
    origin: OriginEntry = field(default=OriginEntry(), metadata=one(OriginEntry))
