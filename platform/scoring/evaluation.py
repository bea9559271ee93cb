"""ML.EVALUATE on data: one row of metrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ...warehouse.version import Version
from ..engines.base import Engine, staged
from ..errors import DataError
from ..input.columns import columns_from
from ..input.encode import floats, shown
from ..input.roles import GROUP, LABEL
from ..input.slot_types import require_number, require_value
from ..input.slots import matched
from ..training.metrics.metrics import Metrics, gauc
from ..training.recipe import algorithm_of
from .losses import losses_of
from .prediction import inputs_of, request_of, scored

if TYPE_CHECKING:
    from ..progress import Reporter


class Evaluation:
    """The metrics of a version on a query's rows, checked and to be measured, by the predictions of its first label.

    Attributes:
        schema: of the row of metrics: examples, and gauc where the model has a GROUP column that the query returns.

    Raises:
        StatementError: the query cannot run, lacks a column of the model or its label, or has a label that is no number
            or a GROUP that tells none apart.
    """

    def __init__(self, version: Version, engine: Engine, query: str) -> None:
        self._version, self._engine, self._query = version, engine, query
        self._found = found = engine.scan(query)
        self._inputs = inputs_of(version, found.schema)
        columns = columns_from(version.manifest)
        self._label = matched(columns, found.schema, columns.labels[:1])
        for label in self._label.values():
            require_number(found.schema.field(label), LABEL)
        group = columns.group if columns.labels else None
        self._grouped = [name for name in found.schema.names if group is not None and name.lower() == group.lower()]
        for name in self._grouped:
            require_value(found.schema.field(name), GROUP)
        names = [*Metrics(classifier=False).as_dict(), *(["gauc"] if self._grouped else [])]
        self.schema = pa.schema([(name, pa.int64() if name == "examples" else pa.float64()) for name in names])

    def measure(self, folder: Path, reporter: Reporter) -> pa.Table:
        """Score the rows and return the row of metrics.

        Args:
            folder: empty; what has to be written on the way goes here. With an engine of tasks, all machines share it.

        Raises:
            DataError: a label is NULL, or of a classifier and not 0 or 1.
        """
        version, algorithm = self._version, algorithm_of(self._version.manifest)
        scan = staged(self._engine, self._query, self._found, folder / "input")
        labels, grouped = list(self._label.values()), self._grouped
        request = request_of(version, scan, self._inputs, list(dict.fromkeys([*labels, *grouped])))
        if not labels:
            return pa.Table.from_pylist([losses_of(request, algorithm).as_dict()], self.schema)
        metrics = Metrics(algorithm.classifier)
        kept: list[tuple[pa.Array, np.ndarray, np.ndarray]] = []
        reporter.start(f"ML.EVALUATE of {version.manifest.model} v{version.number}", None)
        try:
            for rows, predictions, _ in scored(request, self._engine.tasks, folder, reporter):
                found = floats(rows.column(labels[0]))
                check(found, labels[0], algorithm.classifier, metrics.examples)
                metrics.add(found, predictions[:, 0])
                if grouped:
                    kept.append((plain(rows.column(grouped[0])), found, predictions[:, 0]))
                reporter.update(metrics.examples, {})
        finally:
            reporter.finish("")
        row = metrics.as_dict()
        if grouped:
            row["gauc"] = grouped_auc(kept) if algorithm.classifier else None
        return pa.Table.from_pylist([row], self.schema)


def plain(column: pa.ChunkedArray) -> pa.Array:
    column = column.combine_chunks()
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def grouped_auc(kept: list[tuple[pa.Array, np.ndarray, np.ndarray]]) -> float | None:
    """Return the GAUC of chunks of (group, labels, predictions)."""
    if not kept:
        return None
    names = pa.chunked_array([k[0] for k in kept]).combine_chunks().dictionary_encode(null_encoding="encode")
    numbers = names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return gauc(numbers, np.concatenate([k[1] for k in kept]), np.concatenate([k[2] for k in kept]))


def check(labels: np.ndarray, name: str, classifier: bool, before: int) -> None:
    """Refuse labels that predictions cannot be measured against."""
    good = (labels == 0) | (labels == 1) if classifier else np.isfinite(labels)
    if not good.all():
        row = int(np.argmin(good))
        wanted = "0 or 1" if classifier else "a finite number"
        raise DataError(
            f"LABEL {name} must be {wanted}; row {before + row} of the query has {shown(labels[row])}. Filter such rows out."
        )
