"""The manifest of a version: one JSON file beside its rows; docs/format.md is its description for readers.

A new field is one line in `Manifest`, with a default. FORMAT grows only when an older xpsql would misread what is written.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from ..platform.errors import ModelError, NewerFormatError
from ..platform.typed import check_types, has_types
from .checksums import FileEntry, SumsEntry, VectorsEntry, check_files
from .durable import replace_text
from .entries import (
    CalibratorEntry,
    DenseEntry,
    HistoryEntry,
    LearnedEntry,
    OptionEntry,
    PartEntry,
    RolesEntry,
    RowGroup,
    SizesEntry,
    SlotEntry,
    SourceEntry,
    Split,
    StreamEntry,
    TableEntry,
    many,
    one,
    read_by,
    record,
)
from .ranges import check_ranges

FORMAT = 1
CLASSES, VECTORS, DELTA, CALIBRATED, HISTORIES = "classes", "vectors", "delta", "calibrated", "histories"
"""The label is one; values of slots have vectors; rows are changes; predictions are not what the model says; slots are fields
of stored histories."""
FILE, KNOWN = "manifest.json", frozenset({CLASSES, VECTORS, DELTA, CALIBRATED, HISTORIES})

NEEDED = frozenset({"algorithm", "slots", "roles", "tables", "statistics"})  # of a committed version; always written
Status = Literal["training", "interrupted", "failed", "held", "ready", "damaged", "newer format"]
TABLE, TRAINING = re.compile(r"[A-Za-z0-9_]+"), re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Manifest:
    """One version of a model.

    Attributes:
        status: `training` while nobody trains reads as `interrupted`; `damaged` and `newer format` stand in no manifest:
            they are of those that cannot be read.
        training: a random name of the training that made it, which its checkpoints carry.
        statement: the text that made it; `query` is the part after AS, with TRANSFORM around it.
        algorithm, operators: with the options that the statement gave.
        clauses: by word, what the statement says beside these and WITH, or its parent's said; a clause's record reads it
            (platform/training/clauses/).
        settings: the options of WITH; None where a rule decides.
        chosen: every option, with the value that was used and who chose it.
        sizes: what it ran with, by which RESUME goes on.
        slots, roles: the columns of the query.
        vectors: of VECTORS, in files of their own. sums: see SumsEntry.
        sources: what its query reads; input: how its splits are read, splits: those that RESUME reads.
        stream: how far it and its ancestors have learned from streams.
        parent: the version it continues, if any; replaces: once `ready`, every version before it is gone (OR REPLACE).
        base: the previous version, whose rows this one's change (a delta); None where it has all rows.
        once: the names under which it and its ancestors learned (WITH once), its own last.
        learned: how much.
        metrics: of its training, as ML.EVALUATE shows them; evaluation: over all windows of EVALUATE; validation: of the rows
            held out, after the last pass, or the best where patience keeps it.
        statistics: what the encoder and dense parameters need again (scales of continuous slots, ...), as JSON holds it.
        calibrators: what makes predictions of each label calibrated ones, beside the biases in `calibration`.
        epoch: of the driver that trains it; RESUME counts on.
        files: the files of its data, with their checksums; None before it is committed.
        requires: what a reader must know beside this format, by name; docs/format.md has them.
        environment: versions of packages and what else the bits of a training depend on beside its rows.
    """

    model: str = ""
    version: int = 0
    status: Status = "training"
    training: str = ""
    statement: str = ""
    query: str = ""
    algorithm: PartEntry = field(default=PartEntry(), metadata=one(PartEntry))
    operators: tuple[PartEntry, ...] = field(default=(), metadata=many(PartEntry))
    clauses: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    chosen: tuple[OptionEntry, ...] = field(default=(), metadata=many(OptionEntry))
    sizes: SizesEntry = field(default=SizesEntry(), metadata=one(SizesEntry))
    slots: tuple[SlotEntry, ...] = field(default=(), metadata=many(SlotEntry))
    roles: RolesEntry = field(default=RolesEntry(), metadata=one(RolesEntry))
    vectors: tuple[VectorsEntry, ...] = field(default=(), metadata=many(VectorsEntry))
    sums: SumsEntry | None = field(default=None, metadata=one(SumsEntry))
    tables: tuple[TableEntry, ...] = field(default=(), metadata=many(TableEntry))
    dense: tuple[DenseEntry, ...] = field(default=(), metadata=many(DenseEntry))
    sources: tuple[SourceEntry, ...] = field(default=(), metadata=many(SourceEntry))
    input: Mapping[str, Any] = field(default_factory=dict)
    splits: tuple[Split, ...] = field(default=(), metadata=many(RowGroup))
    stream: StreamEntry = field(default=StreamEntry(), metadata=one(StreamEntry))
    parent: int | None = None
    replaces: bool = False
    base: int | None = None
    once: tuple[str, ...] = ()
    created: datetime | None = field(default=None, metadata=read_by(datetime.fromisoformat))
    finished: datetime | None = field(default=None, metadata=read_by(datetime.fromisoformat))
    seconds: float | None = None
    learned: LearnedEntry = field(default=LearnedEntry(), metadata=one(LearnedEntry))
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    evaluation: Mapping[str, float | None] = field(default_factory=dict)
    validation: Mapping[str, float | None] = field(default_factory=dict)
    statistics: Mapping[str, Any] = field(default_factory=dict)
    calibrators: tuple[CalibratorEntry, ...] = field(default=(), metadata=many(CalibratorEntry))
    epoch: int = 0
    files: tuple[FileEntry, ...] | None = field(default=None, metadata=many(FileEntry))
    requires: tuple[str, ...] = ()
    error: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        return int(self.settings.get("seed", 0))

    @property
    def histories(self) -> tuple[HistoryEntry, ...]:
        """The stored histories that it reads."""
        return self.roles.histories

    @property
    def identity(self) -> str:
        """What names its rows in every warehouse: the training that made them."""
        return self.learned.origin.copied or self.training

    @property
    def train_only(self) -> frozenset[str]:
        """The dense parameters that predictions do without."""
        return frozenset(entry.name for entry in self.dense if entry.train_only)

    @property
    def begun(self) -> bool:
        """Whether its input is known, so that it can be resumed."""
        return bool(self.splits) or self.stream.name is not None

    def having_learned(self, **counts: Any) -> Manifest:
        """Return it with other values of `learned`."""
        return dataclasses.replace(self, learned=dataclasses.replace(self.learned, **counts))

    def having_origin(self, **values: Any) -> Manifest:
        """Return it with other values of where it comes from."""
        return self.having_learned(origin=dataclasses.replace(self.learned.origin, **values))

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
    return _manifest_of(path := folder / name, path.read_bytes())


@functools.lru_cache(256)
def _manifest_of(path: Path, data: bytes) -> Manifest:
    """Return the manifest in a file of these bytes: a statement reads that of a new version some ten times."""
    values = object_of(path, data)
    try:
        manifest = record(Manifest, values)
        check_values(manifest)
        if manifest.status in ("ready", "held") and (missing := sorted(NEEDED - values.keys())):
            raise ValueError(f"{', '.join(missing)} must be there")
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise ModelError(f"{path} is damaged: {error}. Restore it from a backup, or drop the version.") from error
    if unknown := sorted(set(manifest.requires) - KNOWN):
        raise NewerFormatError(
            f"{path} needs {', '.join(map(str, unknown))}, which this xpsql does not support. Install a newer xpsql."
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
    origin = manifest.learned.origin
    for training in filter(None, (manifest.training, origin.copied, *origin.lineage)):
        if not TRAINING.fullmatch(training):
            raise ValueError(f"a training's name has 32 hexadecimal digits, got {training!r}")
    if not has_types(manifest.settings.get("seed", 0), int):
        raise ValueError(f"the seed is a number, got {manifest.settings['seed']!r}")
    check_files(manifest.files or ())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object that carries a `format`, and check that this xpsql knows it.

    Raises:
        FileNotFoundError: there is no such file.
        ModelError: it is not a JSON object, or of a newer format.
    """
    return object_of(path, path.read_bytes())


def object_of(path: Path, data: bytes) -> dict[str, Any]:
    """Return the JSON object in a file of these bytes, as `read_json` does.

    Raises:
        ModelError: it is not a JSON object, or of a newer format.
    """
    try:
        values = json.loads(data.decode("utf-8"))
        found = int(values["format"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ModelError(
            f"{path} is damaged: a JSON object with a format number was expected ({error}). "
            "Restore it from a backup, or drop the model."
        ) from error
    if found > FORMAT:
        raise NewerFormatError(
            f"{path} has format {found}; this xpsql reads up to format {FORMAT}. Install an xpsql that reads format {found}."
        )
    return dict(values)
