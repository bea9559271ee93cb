"""EXPORT MODEL ... FORMAT serving | onnx: a version as a folder that programs without xpsql score with.

model.json      what a row's inputs are made of, and what the files below hold
rows.bin        rows by key, see images/layout.py; rows.<table>.bin of tables that have rows for other keys
vectors.*.bin   of vectors with ids, see vectors.py
biases.bin      of values that calibrate predictions, see calibration.py
changes.bin     in place of rows.bin: of a delta, the rows that replace the base's, zeros for removed ones
dense.onnx      serving: rows of slots and numbers -> predictions
model.onnx      onnx: keys of slots and numbers -> predictions; its constants are in rows.bin
parity.parquet  rows with their inputs and predictions
READY           is written last
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...algorithms.augments.pairs import shares
from ...algorithms.base import Algorithm
from ...algorithms.blocks.events import EVENTS
from ...warehouse.package import read_package
from ..engines.base import Engine
from ..engines.targets import Target
from ..errors import ModelError, StatementError, Subject
from ..histories.bound import as_lists
from ..images.image import MappedRows, images_of
from ..images.layout import RowColumn, opened
from ..images.overlay import changed_keys, same_tables
from ..images.tables import FileOfTables, absent_of, files_of, training_of
from ..input.columns import columns_in
from ..input.scaling import Scales, moments_in
from ..models.exports import ROWS, Exported, Marker, check_no_more, check_replaced, exported
from ..models.vertices import refuse_edges
from ..ps._native import Image
from ..scoring.prediction import bounds_of, intervals_of
from ..scoring.scorer_cache import scorer_of
from ..training.profiles.intervals import Width
from ..training.recipe import algorithm_of
from .calibration import PortableCalibration
from .core import Core, needed
from .description import FILE, READY, checksums, described, described_intervals, described_rows
from .graph import StoredRows, assemble
from .interface import Arrays, ConstantKeys, Interface, encoded
from .parity import check, difference, parity_rows, said_by, write_parity
from .results import Results
from .stored_rows import SomeRows, dense_of, write_files
from .vectors import PortableVectors

if TYPE_CHECKING:
    from ...warehouse.version import Version

SERVING, ONNX = "serving", "onnx"
FORMAT = Subject("FORMAT")
GRAPHS = {SERVING: "dense.onnx", ONNX: "model.onnx"}
PARITY = "parity.parquet"
MARKER = Marker(FILE, "sha256", f"export as {SERVING} or {ONNX}")


class PortableModel:
    """A version, and rows to score, prepared for an export.

    Args:
        table: rows, as the columns of the version.
        bases: images of another version; then only the rows that differ from theirs are written.
        widths: of the intervals of predictions; empty: none are wanted.

    Attributes:
        said: its outputs for them by the rows that were written; lost: how much they differ from ML.PREDICT, for fp16.

    Raises:
        ModelError: see Interface.
    """

    def __init__(
        self, version: Version, table: pa.Table, bases: Sequence[MappedRows] = (), widths: tuple[Width, ...] = ()
    ) -> None:
        self.version, self.table, self._bases, self.widths = version, table, bases, widths
        self._bounds = [field.name for field in bounds_of(version, widths)]
        self.algorithm: Algorithm = algorithm_of(version.manifest)
        self.columns = columns_in(version).whole
        self.interface = Interface(self.columns, self.algorithm)
        self.interface.check_names(
            [*map(self._named, self.columns.labels), *(f"predicted_{one}" for one in self.algorithm.outputs), *self._bounds]
        )
        labels = len(self.columns.labels) if self.columns.standardised else 0
        self.scales = Scales.of(moments_in(version.manifest, self.columns), labels)
        chunk = encoded(table, self.columns)
        self.constants = ConstantKeys.of(chunk, self.columns)
        self.files = changed_files(version, bases) if bases else files_of(version)
        self.vectors = PortableVectors(version, self.columns, self.algorithm)
        self.calibration = PortableCalibration(version, self.columns)
        self.absent = bases[0].layout.absent if bases else absent_of(self.all_files)
        self.inputs: Arrays = self.interface.arrays(chunk, self.absent)
        self.keys = self.interface.row_keys(self.inputs, self.absent)
        asked = [keys.reshape(-1).view(np.uint64) for keys in self.keys.values()]
        self.dense = dense_of(version)
        wanted = np.unique(np.concatenate([chunk.keys, self.constants.all, *asked]))
        self.written, self._exact = SomeRows(version, wanted, self.dense), SomeRows(version, wanted, self.dense)

    @property
    def all_files(self) -> list[FileOfTables]:
        """Its files of rows, of vectors with ids and of biases."""
        return [*self.files, *self.vectors.files, *self.calibration.files]

    @property
    def packaged(self) -> bool:
        """Another package scores with it."""
        return self.algorithm.learns.learner is not None

    @property
    def results(self) -> Results:
        """Its outputs."""
        outputs = {name: self.said[f"predicted_{name}"].shape for name in self.algorithm.outputs}
        others = [(f"predicted_{name}", shape[1] if len(shape) > 1 else 0) for name, shape in outputs.items()]
        bounds = [(name, 0) for name in self._bounds]
        if self.columns.classes is not None:
            (label,) = self.columns.labels
            return Results((), [(self._named(label), len(self.columns.classes.values)), *others], bounds, self.widths)
        return Results([(self._named(label), 0) for label in self.columns.labels], others, bounds, self.widths)

    def write_rows(self, folder: Path, half: bool) -> list[StoredRows]:
        """Write the files of rows, those of vectors with ids last; then score the rows to compare with what is in them."""
        stored = write_files(self.version, self.files, folder, not self._bases, half, self.absent, self.written, self._exact)
        self.said = self._said(self.written)
        self.lost = difference(self._said(self._exact), self.said) if half else 0.0
        vectors = self.vectors.write(folder, self.absent, self.dense)
        return [*stored, *vectors, *self.calibration.write(folder, self.absent)]

    @property
    def _alone(self) -> pa.Table:
        """The rows, before which stored histories have nothing of users whose events they are."""
        table, nowhere = self.table, np.zeros(self.table.num_rows, np.int64)
        for history in columns_in(self.version).histories if self.columns.records(EVENTS) else ():
            for column, name in history.columns.items():
                table = table.append_column(column, as_lists(history.image(), name, nowhere, nowhere))
        return table

    def _said(self, rows: SomeRows) -> dict[str, Any]:
        scored = scorer_of(self.version, rows.pull).scored(self._alone)._replace(widths=self.widths)
        lines = scored.predictions.T if self.columns.classes is None else [scored.predictions]
        labels = {self._named(label): line for label, line in zip(self.columns.labels, lines, strict=True)}
        bounds = {name: values.astype(np.float32) for name, values in zip(self._bounds, scored.bounds, strict=True)}
        return labels | {f"predicted_{name}": values for name, values in scored.outputs.items()} | bounds

    def _named(self, label: str) -> str:
        """Return what a graph calls a prediction: of a label with classes the probabilities of all."""
        return f"predicted_{label}" if self.columns.classes is None else f"predicted_{label}_probabilities"

    def core(self) -> Core:
        """Return the function of rows."""
        columns, first, parts = [], 0, []
        for file in self.files:
            for column in file.columns:
                columns.append(RowColumn(column.table, column.column, first + column.first, column.floats))
                parts.append(self.written.of(column, self.constants.all))
            first += sum(column.floats for column in file.columns)
        for file in (*self.vectors.files, *self.calibration.files):
            (column,) = file.columns
            columns.append(column._replace(first=first))
            parts.append(np.zeros((len(self.constants.all), column.floats), np.float32))
            first += column.floats
        return Core(
            self.algorithm, self.interface, columns, np.concatenate(parts, axis=1), self.dense, self.calibration.calibrators
        )

    def row_inputs(self, folder: Path, stored: list[StoredRows]) -> Arrays:
        """Return the inputs of a graph over rows: rows as files have them."""
        rows = [opened(folder / one.file)[1] for one in stored]
        overs = zip(self._bases, rows, strict=False)  # vectors with ids are whole
        layered = [Image(base.memory, over) for base, over in overs]
        files = [*layered, *map(Image, rows[len(layered) :])]
        found = {name: np.concatenate([found_in(file, keys) for file in files], axis=-1) for name, keys in self.keys.items()}
        for name, keys in self.keys.items():
            there = keys != self.absent
            if keys.ndim > 1:
                found[f"{name}.weight"] = self.inputs.get(f"{name}.weight", there.astype(np.float32)) * there
                if self.interface.pairs is not None:
                    found[f"{name}.weight"] *= shares((self.inputs[name] != self.absent).sum(axis=1))[:, None]
        for own in self.interface.sequences:
            masks = [self.inputs[one.name] != self.absent for one in own.inputs]
            found[f"{own.inputs[0].name}.mask"] = np.any(masks, axis=0)
        return found | {one.name: self.inputs[one.name] for one in (*self.interface.numbers, *self.interface.others)}


def unheard(line: str) -> None:
    """Ignore the report that an image was made again."""


def found_in(image: Image, keys: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the rows of keys of any shape, float32[..., width]."""
    rows = np.empty((keys.size, image.width), np.float32)
    image.gather(np.ascontiguousarray(keys).reshape(-1).view(np.uint64), [(0, rows)])
    return rows.reshape(*keys.shape, image.width)


def changed_files(version: Version, bases: Sequence[MappedRows]) -> list[FileOfTables]:
    """Return the files of a version's rows that differ from another version's.

    Raises:
        ModelError: it has other tables.
    """
    if not same_tables(version, bases):
        raise ModelError(f"{version.folder} has other tables than the base version: export it in full.")
    files = []
    for base in bases:
        keys = changed_keys(version, base, math.inf)
        if keys is None or base.path is None:
            raise ModelError(
                f"The rows of {version.folder} that changed cannot be distinguished from absent ones: export it in full."
            )
        files.append(FileOfTables(base.path.name.replace("rows", "changes", 1), keys, base.layout.columns))
    return files


def export_portable(
    version: Version,
    engine: Engine,
    target: Target,
    kind: str,
    half: bool,
    parity: str,
    replace: bool,
    base: Version | None = None,
    level: float | None = None,
) -> int:
    """Write a version to a folder, as Target does, and return how many keys have rows there.

    Args:
        kind: SERVING or ONNX.
        half: rows are float16.
        parity: the query of rows to compare; "" for that of the training.
        replace: an export of another model, or of the other kind.
        base: of whose rows only those are written that differ; None for all.
        level: of the intervals that are answered, too; None: none are.

    Raises:
        StatementError: the algorithm runs in another package, the packages that it needs are not installed, or the rows to
            compare cannot be read; see widths_of.
        ModelError: the folder holds something else, a graph cannot be made, or it gives other predictions.
    """
    check_free(target, version.manifest.model, kind, replace)
    refuse_edges(version.manifest, f"{FORMAT} {kind} makes a graph of what scores weights")
    check_inside(algorithm_of(version.manifest), version.manifest.algorithm.name, kind)
    what = f"{kind}, the algorithm {version.manifest.algorithm.name},"
    widths = () if level is None else intervals_of(version, level)
    bases = [] if base is None else images_of(base, half, unheard)
    model = PortableModel(version, parity_rows(version, engine, parity), bases, widths)
    if not model.packaged:
        needed(kind)
    elif kind == ONNX:
        raise StatementError(f"{version.manifest.algorithm.name} has a model of its own: use FORMAT serving, which writes it.")
    with target.replacing(last=READY) as draft, target.storing(draft):
        stored = model.write_rows(draft, half)
        graph, largest = write_graph(model, draft, stored, kind, what)
        write_parity(draft / PARITY, model.table, model.inputs, model.said)
        more: dict[str, Any] = {"kind": kind, "graph": graph, "largest_difference": largest, "difference_by_fp16": model.lost}
        more["intervals"] = None if level is None else described_intervals(version, level, widths)
        more["base"] = None if base is None else {"version": base.number, "training": training_of(base).hex()}
        write_description(model, draft, stored, more)
        (draft / READY).touch()
    return sum(one.layout.rows for one in stored[:1])


def write_graph(model: PortableModel, folder: Path, stored: list[StoredRows], kind: str, what: str) -> tuple[str, float | None]:
    """Write what scores, and return its file and by how much its predictions differ; None where a package gives them.

    Raises:
        ModelError: it cannot be made, or gives other predictions.
    """
    if (learner := model.algorithm.learns.learner) is not None:
        kept = learner.portable(read_package(model.version.stored("package")[0]))
        (folder / kept.file).write_bytes(kept.content)
        return kept.file, None
    rows = stored if kind == ONNX else None
    made = assemble(model.core(), model.interface, model.scales, model.results, rows, model.absent, what)
    (folder / GRAPHS[kind]).write_bytes(made.SerializeToString())
    inputs = model.inputs if kind == ONNX else model.row_inputs(folder, stored)
    return GRAPHS[kind], check(GRAPHS[kind], said_by(folder / GRAPHS[kind], inputs), model.said)


def write_description(model: PortableModel, folder: Path, stored: list[StoredRows], more: Mapping[str, Any]) -> None:
    """Write model.json."""
    arguments = model.version, model.algorithm, model.interface, model.scales, model.constants, model.absent, model.results.all
    files = [more["graph"], PARITY, *(one.file for one in stored)]
    values = {
        **described(*arguments), **more, "calibration": model.calibration.described,
        "rows": described_rows(model.all_files, stored), "parity": PARITY,
        "sha256": checksums(folder, files),
    }  # fmt: skip
    (folder / FILE).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def check_inside(algorithm: Algorithm, name: str, kind: str) -> None:
    """Require that a graph can be made of the functions of an algorithm.

    Raises:
        StatementError: they call another package.
    """
    if algorithm.traits.outside:
        raise StatementError(
            f"{FORMAT} {kind} needs functions of JAX, of which it makes a graph; the algorithm {name} of this model runs in "
            f"{algorithm.traits.outside}. Write the network in Flax NNX, Equinox or plain JAX and train again; or score it by "
            "xpsql serve or ML.PREDICT, or write its rows with FORMAT parquet.",
            subject=FORMAT,
        )


def check_free(target: Target, model: str, kind: str, replace: bool) -> None:
    """Require that nothing is lost when a folder is replaced.

    Raises:
        ModelError: it holds something else than an export of a model as `kind`.
    """
    if not (names := target.names()):
        return
    found = exported(target, MARKER)
    check_no_more(target, names - {FILE, READY, *found["sha256"]})
    check_replaced(target, Exported(found["model"], ROWS, found["kind"]), Exported(model, ROWS, kind), replace)
