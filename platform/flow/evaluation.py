"""ML.EVALUATE on data: one row of metrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...warehouse.version import Version
from ..engines.base import Engine, staged
from ..errors import DataError
from .encode import floats, shown
from .losses import evaluate_losses
from .metrics import Metrics, gauc
from .prediction import inputs_of, request_of, scored
from .recipe import algorithm_of
from .slots import columns_from, matched, require_number, require_value

if TYPE_CHECKING:
    from ..progress import Reporter


def evaluate(version: Version, engine: Engine, query: str, folder: Path, reporter: Reporter) -> pa.Table:
    """Score a query's rows with a version and measure the predictions of the first label.

    Args:
        folder: empty; what has to be written on the way goes here. With an engine of tasks, all machines share it.

    Returns:
        One row: examples and metrics, gauc among them where the model has a GROUP column that the query returns.

    Raises:
        StatementError: the query cannot run, lacks a column of the model or its label, or has a label that is no number
            or a GROUP that tells none apart.
        DataError: a label is NULL, or of a classifier and not 0 or 1.
    """
    found = engine.scan(query)
    inputs = inputs_of(version, found.schema)
    columns, algorithm = columns_from(version.manifest), algorithm_of(version.manifest)
    if not columns.labels:
        return evaluate_losses(request_of(version, staged(engine, query, found, folder / "input"), inputs, []), algorithm)
    classifier = algorithm.classifier
    label, group = columns.labels[0], columns.group
    own = matched(columns, found.schema, [label])[label]
    require_number(found.schema.field(own), "LABEL")
    grouped = [name for name in found.schema.names if group is not None and name.lower() == group.lower()]
    for name in grouped:
        require_value(found.schema.field(name), "GROUP")
    scan = staged(engine, query, found, folder / "input")
    request = request_of(version, scan, inputs, list(dict.fromkeys([own, *grouped])))
    metrics = Metrics(classifier)
    kept: list[tuple[pa.Array, np.ndarray, np.ndarray]] = []
    reporter.start(f"ML.EVALUATE of {version.manifest.model} v{version.number}", None)
    try:
        for rows, predictions in scored(request, engine.tasks, folder, reporter):
            labels = floats(rows.column(own))
            check(labels, own, classifier, metrics.examples)
            metrics.add(labels, predictions[:, 0])
            if grouped:
                kept.append((plain(rows.column(grouped[0])), labels, predictions[:, 0]))
            reporter.update(metrics.examples, {})
    finally:
        reporter.finish("")
    row = metrics.as_dict()
    if grouped:
        row["gauc"] = grouped_auc(kept) if classifier else None
    return pa.Table.from_pylist([row])


def plain(column: pa.ChunkedArray) -> pa.Array:
    column = column.combine_chunks()
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def grouped_auc(kept: list[tuple[pa.Array, np.ndarray, np.ndarray]]) -> float | None:
    """Return the GAUC of chunks of (group, labels, predictions)."""
    if not kept:
        return None
    names = pc.dictionary_encode(pa.chunked_array([k[0] for k in kept]).combine_chunks(), null_encoding="encode")
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
