"""ML.EVALUATE on data: a row of metrics for each label."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...warehouse.version import Version
from ..engines.base import Engine, staged
from ..errors import DataError
from ..input.columns import columns_from
from ..input.encode import groups_of
from ..input.numbers import floats, shown
from ..input.roles import GROUP, LABEL
from ..input.slot_types import require_number, require_value
from ..input.slots import matched
from ..training.metrics import metric_names
from ..training.metrics.labels import metrics_schema
from ..training.metrics.metrics import NO_GROUPS, LabelMetrics, Targets
from ..training.recipe import algorithm_of
from .losses import losses_of
from .prediction import request_of, scored
from .rows import rows_of

if TYPE_CHECKING:
    from ..progress import Reporter
    from .scorer import Request


class Measured(NamedTuple):
    """Rows whose labels are known: float32[num_labels, n] labels and predictions, and int64[n] groups, empty without GROUP."""

    labels: NDArray[np.float32]
    predictions: NDArray[np.float32]
    groups: NDArray[np.int64]


class Evaluation:
    """The metrics of a version on a query's rows, checked and to be measured, of the labels that the query returns.

    Args:
        group: the column of the groups of rows; one that the query does not return tells of none.

    Attributes:
        schema: of the rows of metrics: examples, and gauc where there are groups.

    Raises:
        StatementError: the query cannot run, lacks a column of the model or all of its labels, or has a label that is no number
            or a GROUP that tells none apart.
    """

    def __init__(self, version: Version, engine: Engine, query: str, group: str | None) -> None:
        self._version, self._engine = version, engine
        found = rows_of(version, engine, query)
        self._query, self._found, self._inputs = found.query, found.found, found.inputs
        self._columns = columns = columns_from(version.manifest)
        there = {name.lower() for name in found.schema.names}
        wanted = [label for label in columns.labels if label.lower() in there]
        self._label = matched(columns, found.schema, tuple(wanted) or columns.labels[:1])
        for label in self._label.values():
            require_number(found.schema.field(label), LABEL)
        self._grouped = [name for name in found.schema.names if group is not None and name.lower() == group.lower()]
        for name in self._grouped:
            require_value(found.schema.field(name), GROUP)
        self.schema = metrics_schema(("examples", *metric_names(bool(self._grouped))), len(columns.labels) > 1)

    def measure(self, folder: Path, reporter: Reporter) -> pa.Table:
        """Score the rows and return the rows of metrics.

        Args:
            folder: empty; what has to be written on the way goes here. With an engine of tasks, all machines share it.

        Raises:
            DataError: a label is NULL, or of a classifier and not 0 or 1.
        """
        if not self._label:
            request, algorithm = self.request(folder), algorithm_of(self._version.manifest)
            return pa.Table.from_pylist([losses_of(request, algorithm).as_dict()], self.schema)
        metrics = LabelMetrics(Targets.of(list(self._label), self.classifier, bool(self._grouped)))
        for sample in self.samples("ML.EVALUATE", folder, reporter):
            metrics.add(*sample)
        return pa.Table.from_pylist([{"label": label, **row} for label, row in metrics.by_label().items()], self.schema)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that are measured."""
        return tuple(self._label)

    @property
    def classifier(self) -> bool:
        """Whether labels are 0 or 1, and predictions probabilities."""
        return algorithm_of(self._version.manifest).classifier

    def samples(self, name: str, folder: Path, reporter: Reporter) -> Iterator[Measured]:
        """Score the rows and yield their labels, predictions and groups, piece by piece.

        Args:
            name: of the function, for the line of progress.
            folder: see measure.

        Raises:
            DataError: see measure.
        """
        labels, grouped, classifier = list(self._label.values()), self._grouped, self.classifier
        places, examples = [self._columns.labels.index(label) for label in self._label], 0
        reporter.start(f"{name} of {self._version.manifest.model} v{self._version.number}", None)
        try:
            for rows, predictions, _ in scored(self.request(folder), self._engine.tasks, folder, reporter):
                found = np.stack([floats(rows.column(label)) for label in labels])
                for label, values in zip(labels, found, strict=True):
                    check(values, label, classifier, examples)
                examples += len(predictions)
                groups = groups_of(rows.column(grouped[0]), grouped[0]).view(np.int64) if grouped else NO_GROUPS
                yield Measured(found, predictions.T[places], groups)
                reporter.update(examples, {})
        finally:
            reporter.finish("")

    def request(self, folder: Path) -> Request:
        """Return what to score, with the labels' columns and that of groups; see measure."""
        scan = staged(self._engine, self._query, self._found, folder / "input")
        carried = list(dict.fromkeys([*self._label.values(), *self._grouped]))
        return request_of(self._version, scan, self._inputs, carried)


def check(labels: np.ndarray, name: str, classifier: bool, before: int) -> None:
    """Refuse labels that predictions cannot be measured against."""
    good = (labels == 0) | (labels == 1) if classifier else np.isfinite(labels)
    if not good.all():
        row = int(np.argmin(good))
        wanted = "0 or 1" if classifier else "a finite number"
        raise DataError(
            f"LABEL {name} must be {wanted}; row {before + row} of the query has {shown(labels[row])}. Filter such rows out."
        )
