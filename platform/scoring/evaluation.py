"""ML.EVALUATE on data: a row of metrics for each label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...warehouse.version import Version
from ..engines.base import Engine, Staged
from ..engines.staging import staged
from ..errors import DataError
from ..input.columns import Classes, columns_in
from ..input.encode import class_numbers, groups_of, require_known
from ..input.numbers import floats, shown
from ..input.roles import GROUP, LABEL
from ..input.slot_types import has_text, require_classes, require_number, require_value
from ..input.slots import matched
from ..training.clauses.calibrate import CALIBRATE
from ..training.clauses.evaluate import EVALUATE
from ..training.metrics import metric_names
from ..training.metrics.fields import FIELD_METRICS, FieldTally
from ..training.metrics.labels import metrics_schema
from ..training.metrics.measured import MEASURED_ON, QUERY
from ..training.metrics.metrics import NO_GROUPS, LabelMetrics, Targets
from ..training.recipe import algorithm_of
from .losses import losses_of
from .prediction import request_of, scored
from .rows import rows_of

if TYPE_CHECKING:
    from ...algorithms.losses import Loss
    from ...warehouse.manifest import Manifest
    from ..progress import Reporter
    from .scorer import Request


MEASURED = {MEASURED_ON.name: QUERY}


class Measured(NamedTuple):
    """Rows whose labels are known: float32[num_labels, n] labels and predictions, of classes float32[k, n] predictions, and
    int64[n] groups, empty without GROUP; int64[n] values of the column that field_ce is of, None without."""

    labels: NDArray[np.float32]
    predictions: NDArray[np.float32]
    groups: NDArray[np.int64]
    field: NDArray[np.int64] | None = None


class Evaluation:
    """The metrics of a version on a query's rows, checked and to be measured, of the labels that the query returns.

    Args:
        group: the column of the groups of rows; without groups where the query does not return it.

    Attributes:
        schema: of the rows of metrics: examples, and gauc where there are groups.

    Raises:
        StatementError: the query cannot run, lacks a column of the model or all of its labels, or has a label that is not a
            number or a GROUP of a type that cannot group.
    """

    def __init__(self, version: Version, engine: Engine, query: str, group: str | None) -> None:
        self._version, self._engine = version, engine
        found = rows_of(version, engine, query)
        self._query, self._found, self._inputs = found.query, found.found, found.inputs
        self._columns = columns = columns_in(version)
        there = {name.lower() for name in found.schema.names}
        wanted = [label for label in columns.labels if label.lower() in there]
        self._label = matched(columns, found.schema, tuple(wanted) or columns.labels[:1])
        for label in self._label.values():
            (require_number if columns.classes is None else require_classes)(found.schema.field(label), LABEL)
        self._grouped = [name for name in found.schema.names if group is not None and name.lower() == group.lower()]
        for name in self._grouped:
            require_value(found.schema.field(name), GROUP)
        self._field = field_of(version.manifest, found.schema) if self.classifier else None
        fields = () if self._field is None else tuple(FIELD_METRICS)
        names = ("examples", *metric_names(bool(self._grouped)), *fields)
        self.schema = metrics_schema(names, len(columns.labels) > 1).append(MEASURED_ON)

    def measure(self, folder: Path, reporter: Reporter) -> pa.Table:
        """Score the rows and return the rows of metrics.

        Args:
            folder: empty, for intermediate files. With an engine of tasks, all machines share it.

        Raises:
            DataError: a label is NULL, or of a classifier and not 0 or 1.
        """
        self._tell_learned(reporter)
        if not self._label:
            request, algorithm = self.request(folder), algorithm_of(self._version.manifest)
            if algorithm.match is not None:
                reporter.note(
                    "recall and mae are among the items of a batch; with ITEMS (SELECT DISTINCT item FROM t), 10 among all."
                )
            return pa.Table.from_pylist([{**losses_of(request, algorithm).as_dict(), **MEASURED}], self.schema)
        metrics = LabelMetrics(Targets.of(list(self._label), self.measured, bool(self._grouped)))
        fields = [FieldTally() for _ in self._label]
        for sample in self.samples("ML.EVALUATE", folder, reporter):
            metrics.add(*sample[:3])
            if sample.field is not None:
                for one, labels, predictions in zip(fields, sample.labels, sample.predictions, strict=True):
                    one.add(sample.field, labels, predictions)
        rows = [
            {"label": label, **row, **(one.metrics() if self._field is not None else {}), **MEASURED}
            for (label, row), one in zip(metrics.by_label().items(), fields, strict=True)
        ]
        return pa.Table.from_pylist(rows, self.schema)

    def _tell_learned(self, reporter: Reporter) -> None:
        """Say that the version learned rows that it had held out, where these are among the rows of the query."""
        manifest = self._version.manifest
        if manifest.learned.held_out is None or isinstance(self._found, Staged):
            return
        if not {*manifest.splits}.isdisjoint(self._found.splits()):
            reporter.note(
                f"Version {manifest.version} has learned rows of these files, at last those that VALIDATE held out (held_out = "
                f"'{manifest.learned.held_out}'): it predicts new rows worse. Their metrics from before are in SHOW VERSIONS."
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that are measured."""
        return tuple(self._label)

    @property
    def _loss(self) -> Loss | None:
        return algorithm_of(self._version.manifest).loss

    @property
    def kind(self) -> str:
        """The kind of its labels, without what is predicted of them."""
        return self.measured.partition(" ")[0]

    @property
    def classifier(self) -> bool:
        """Whether labels are 0 or 1, and predictions probabilities."""
        return algorithm_of(self._version.manifest).classifier

    @property
    def measured(self) -> str:
        """What the labels are; see Algorithm."""
        return algorithm_of(self._version.manifest).measured

    @property
    def classes(self) -> Classes | None:
        """The label's classes, where it has several."""
        return self._columns.classes

    @property
    def places(self) -> list[int]:
        """The places of the predictions that are measured, among all."""
        if self._columns.classes is not None:
            return list(range(len(self._columns.classes.values)))
        return [self._columns.labels.index(label) for label in self._label]

    def labels_of(self, rows: pa.Table, names: Sequence[str], before: int) -> NDArray[np.float32]:
        """Return the labels of rows, float32[num_labels, n].

        Args:
            names: of their columns.
            before: rows of the query that come before these.

        Raises:
            DataError: one cannot be measured against.
        """
        if self._columns.classes is not None:
            column = rows.column(names[0])
            numbers = class_numbers(column, self._columns.classes)
            require_known(column, numbers, self._columns, lambda row: f"row {before + row} of the query")
            return numbers[None]
        found = np.stack([floats(rows.column(name)) for name in names])
        for name, values in zip(names, found, strict=True):
            check(values, name, self._loss, before)
        return found

    def samples(self, name: str, folder: Path, reporter: Reporter) -> Iterator[Measured]:
        """Score the rows and yield their labels, predictions and groups, piece by piece.

        Args:
            name: of the function, for the line of progress.
            folder: see measure.

        Raises:
            DataError: see measure.
        """
        labels, grouped, places, examples = list(self._label.values()), self._grouped, self.places, 0
        reporter.start(f"{name} of {self._version.manifest.model} v{self._version.number}", None)
        try:
            for one in scored(self.request(folder), self._engine.tasks, folder, reporter):
                rows, predictions = one.rows, one.predictions
                found = self.labels_of(rows, labels, examples)
                examples += len(predictions)
                groups = groups_of(rows.column(grouped[0]), grouped[0]).view(np.int64) if grouped else NO_GROUPS
                field = None if self._field is None else groups_of(rows.column(self._field), self._field).view(np.int64)
                yield Measured(found, predictions.T[places], groups, field)
                reporter.update(examples, {})
        finally:
            reporter.finish("")

    def request(self, folder: Path) -> Request:
        """Return what to score, with the labels' columns and that of groups; see measure."""
        scan = staged(self._engine, self._query, self._found, folder / "input")
        field = [] if self._field is None else [self._field]
        carried = list(dict.fromkeys([*self._label.values(), *self._grouped, *field]))
        return request_of(self._version, scan, self._inputs, carried)


def field_of(manifest: Manifest, schema: pa.Schema) -> str | None:
    """Return the column of a query's rows whose values are measured: the one of CALIBRATE, or else of EVALUATE's BY; None where
    there is none, or no values of it can be told apart.
    """
    calibrate, evaluate = CALIBRATE.kept(manifest), EVALUATE.kept(manifest)
    wanted = (
        *(calibrate.by if calibrate is not None else ()),
        *((evaluate.by,) if evaluate is not None and evaluate.by else ()),
    )
    for name in wanted:
        for field in schema:
            if field.name.lower() == name.lower() and has_text(field.type):
                return str(field.name)
    return None


def check(labels: np.ndarray, name: str, loss: Loss | None, before: int) -> None:
    """Refuse labels that predictions cannot be measured against."""
    good = np.isfinite(labels) if loss is None else loss.takes(labels)
    if not good.all():
        row = int(np.argmin(good))
        wanted = "a finite number" if loss is None else loss.expects
        raise DataError(
            f"LABEL {name} must be {wanted}; row {before + row} of the query has {shown(labels[row])}. Filter such rows out."
        )
