"""The manifest of a version: one JSON file beside its rows.

A new field is one line in `Manifest`, with a default. FORMAT grows only when an older xpsql would misread what is written.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from ..platform.errors import ModelError, NewerFormatError
from ..platform.typed import check_types
from .durable import replace_text
from .ranges import check_ranges
from .stored import FileEntry, SumsEntry, VectorsEntry, check_files

FORMAT = 1
CLASSES, VECTORS, DELTA = "classes", "vectors", "delta"  # the label is one; values of slots have vectors; rows are changes
FILE, KNOWN = "manifest.json", frozenset({CLASSES, VECTORS, DELTA})

NEEDED = frozenset({"algorithm", "slots", "labels", "tables", "statistics"})  # of a committed version; always written
Status = Literal["training", "interrupted", "failed", "held", "ready", "damaged", "newer format"]
R = TypeVar("R")
TABLE, TRAINING = re.compile(r"[A-Za-z0-9_]+"), re.compile(r"[0-9a-f]{32}")


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


def _read(made: Callable[[Any], Any]) -> Mapping[str, Any]:
    """Return the metadata of a field that a function reads from JSON."""
    return {"read": lambda value: None if value is None else made(value)}


def many(kind: type[Any]) -> Mapping[str, Any]:
    """Return the metadata of a field that holds a tuple of records."""
    return _read(lambda values: tuple(record(kind, value) for value in values))


def one(kind: type[Any]) -> Mapping[str, Any]:
    """Return the metadata of a field that holds a record."""
    return _read(lambda value: record(kind, value))


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
    """A round of training and rebuilding: its passes, the number of the best of them, and its recall on the rows held out;
    state, next_epoch: until the version is there, the checksum of what RESUME needs to begin the next one, and its epoch."""

    passes: int
    best_pass: int = 0
    recall: float = 0.0
    state: int = 0
    next_epoch: int = 0


@dataclass(frozen=True)
class Manifest:
    """One version of a model.

    Attributes:
        status: `training` while nobody trains reads as `interrupted`; `damaged` and `newer format` stand in no manifest:
            they are of those that cannot be read.
        training: a random name of the training that made it, which its checkpoints carry.
        statement: the text that made it; `query` is the part after AS; parent: the version it continues, if any.
        replaces: once `ready`, every version before it is gone (OR REPLACE).
        examples: learned from by this version, all passes; `examples_total` adds its ancestors'.
        rows: how many keys have rows, in the first table.
        metrics: of its training, as ML.EVALUATE shows them; late: LABEL ... LATE.
        classes: of the label, in order, where it is one of several; class_type: of its column, by Arrow's name.
        crosses: the terms of CROSS; vectors: of VECTORS, in files of their own; items: the query of ITEMS; positive: a LABEL of
            what was taken.
        transform: TRANSFORM, fitted: what every reader of rows puts around its query; None without. sums: see SumsEntry.
        evaluate: EVALUATE EVERY ... ON ... BY, as `every`, `on` and `by`; None without.
        validate: VALIDATE ON ..., as `share`, `last` and `query`; None without.
        validation: the metrics of the rows held out, after the last pass, or the best where patience keeps it; best_pass: its
            number, from 0. held_out: how those rows were learned then, all or rest; None: not. rounds: of a training that
            makes its tree anew, or is about to learn the rows held out.
        trials: what TUNE tried before, as ML.TRIAL_INFO shows it.
        release: the condition of RELEASE WHEN, as written; evaluation: the metrics over all windows of its training.
        calibration: of predictions in order, in parts of equal size: mean prediction, mean label, examples.
        base_rate: mean label of all examples so far, for the information of features.
        input: how the splits are read; batch_size, passes, shards, workers: with what; expected: examples in all, if known.
        epoch: of the driver that trains it; RESUME counts on. once: the names under which it and its ancestors learned.
        files: the files of its data, with their checksums; None before it is committed.
        environment: versions of packages and what else the bits of a training depend on beside its rows.
        requires: what a reader must know beside this format, by name; docs/format.md has them.
        base: the previous version, whose rows this one's change (a delta); None where it has all rows.
        statistics: what the encoder and dense parameters need again (scales of continuous slots, ...), as JSON holds it.
        stream: what it learns from is a stream, of this name, whose splits are in the version's log of segments.
        position: how far it and its ancestors have learned from each stream, by its name.
        publish: PUBLISH EVERY, as `seconds` and `examples`; None: it ended by itself. retain: RETAIN LAST.
    """

    model: str = ""
    version: int = 0
    status: Status = "training"
    training: str = ""
    statement: str = ""
    query: str = ""
    algorithm: PartEntry = field(default=PartEntry(), metadata=one(PartEntry))
    operators: tuple[PartEntry, ...] = field(default=(), metadata=many(PartEntry))
    slots: tuple[SlotEntry, ...] = field(default=(), metadata=many(SlotEntry))
    labels: tuple[str, ...] = ()
    late: bool = False
    classes: tuple[Any, ...] = ()
    class_type: str = ""
    weight: str | None = None
    time: str | None = None
    group: str | None = None
    ignore: tuple[str, ...] = ()
    crosses: tuple[str, ...] = ()
    vectors: tuple[VectorsEntry, ...] = field(default=(), metadata=many(VectorsEntry))
    items: str | None = None
    positive: str | None = None
    transform: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    sums: SumsEntry | None = field(default=None, metadata=one(SumsEntry))
    tables: tuple[TableEntry, ...] = field(default=(), metadata=many(TableEntry))
    dense: tuple[DenseEntry, ...] = field(default=(), metadata=many(DenseEntry))
    seed: int = 0
    splits: tuple[Split, ...] = field(default=(), metadata=many(RowGroup))
    parent: int | None = None
    replaces: bool = False
    created: datetime | None = field(default=None, metadata=_read(datetime.fromisoformat))
    finished: datetime | None = field(default=None, metadata=_read(datetime.fromisoformat))
    seconds: float | None = None
    examples: int = 0
    examples_total: int = 0
    rows: int = 0
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    evaluate: Mapping[str, Any] | None = None
    validate: Mapping[str, Any] | None = None
    validation: Mapping[str, float | None] = field(default_factory=dict)
    held_out: str | None = None
    best_pass: int | None = None
    rounds: tuple[RoundEntry, ...] = field(default=(), metadata=many(RoundEntry))
    trials: tuple[Any, ...] = ()
    release: str | None = None
    evaluation: Mapping[str, float | None] = field(default_factory=dict)
    calibration: tuple[tuple[float, float, int], ...] = ()
    base_rate: float | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    input: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 0
    passes: int = 0
    shards: int = 0
    workers: int = 0
    expected: int | None = None
    epoch: int = 0
    once: tuple[str, ...] = ()
    files: tuple[FileEntry, ...] | None = field(default=None, metadata=many(FileEntry))
    requires: tuple[str, ...] = ()
    base: int | None = None
    error: str | None = None
    xpsql: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    stream: str | None = None
    position: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    publish: Mapping[str, Any] | None = None
    retain: int | None = None

    @property
    def train_only(self) -> frozenset[str]:
        """The dense parameters that predictions do without."""
        return frozenset(entry.name for entry in self.dense if entry.train_only)

    @property
    def begun(self) -> bool:
        """Whether its input is known, so that it can be resumed."""
        return bool(self.splits) or self.stream is not None

    def table(self, name: str) -> TableEntry:
        """Return a table by name.

        Raises:
            ModelError: the model has no such table.
        """
        for table in self.tables:
            if table.name == name:
                return table
        have = ", ".join(t.name for t in self.tables) or "none"
        raise ModelError(f"Version {self.version} of model {self.model} has no table {name!r}, only: {have}.")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of a version's folder, atomically and durably."""
    text = json.dumps({"format": FORMAT, **dataclasses.asdict(manifest)}, indent=1, default=datetime.isoformat)
    replace_text(folder / FILE, text + "\n")


def read_manifest(folder: Path, name: str = FILE) -> Manifest:
    """Read the manifest of a version's folder, by another name where it is kept under that.

    Raises:
        FileNotFoundError: there is none: the version is gone.
        ModelError: it is damaged, or (NewerFormatError) of a newer format.
    """
    values = read_json(path := folder / name)
    try:
        manifest = record(Manifest, values)
        check_values(manifest)
        if manifest.status in ("ready", "held") and (missing := sorted(NEEDED - values.keys())):
            raise ValueError(f"{', '.join(missing)} must be there")
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise ModelError(f"{path} is damaged: {error}. Restore it from a backup, or drop the version.") from error
    if unknown := sorted(set(manifest.requires) - KNOWN):
        raise NewerFormatError(
            f"{path} needs {', '.join(map(str, unknown))}, which this xpsql does not know. Install a newer xpsql."
        )
    return manifest


def check_values(manifest: Manifest) -> None:
    """Refuse values of other types, and names of files or folders that xpsql does not write.

    Raises:
        ValueError: says which.
    """
    check_types(manifest)
    check_ranges(manifest)
    for name in (*(table.name for table in manifest.tables), *(vectors.name for vectors in manifest.vectors)):
        if not TABLE.fullmatch(name):
            raise ValueError(f"a table's name has letters, digits and _, got {name!r}")
    if manifest.base is not None and not 0 < manifest.base < manifest.version:
        raise ValueError(f"version {manifest.version} cannot change version {manifest.base}")
    if manifest.training and not TRAINING.fullmatch(manifest.training):
        raise ValueError(f"a training's name has 32 hexadecimal digits, got {manifest.training!r}")
    check_files(manifest.files or ())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object that carries a `format`, and check that this xpsql knows it.

    Raises:
        FileNotFoundError: there is no such file.
        ModelError: it is no JSON object, or of a newer format.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        found = int(values["format"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        message = f"{path} is damaged: a JSON object with a format number was expected ({error})."
        raise ModelError(f"{message} Restore it from a backup, or drop the model.") from error
    if found > FORMAT:
        raise NewerFormatError(
            f"{path} has format {found}; this xpsql reads up to format {FORMAT}. Install an xpsql that reads format {found}."
        )
    return dict(values)
