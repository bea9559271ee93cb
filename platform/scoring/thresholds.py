"""Classification at thresholds: ML.ROC_CURVE and ML.CONFUSION_MATRIX."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..errors import StatementError
from ..input.columns import Classes
from ..training.metrics import ranking
from .evaluation import Evaluation

if TYPE_CHECKING:
    from ..progress import Reporter

LABEL_COLUMN = ("label", pa.string())
COUNTS = ("true_positives", "false_positives", "true_negatives", "false_negatives")
ROC_CURVE_SCHEMA = pa.schema(
    [
        LABEL_COLUMN,
        *((name, pa.float64()) for name in ("threshold", "recall", "false_positive_rate")),
        *((name, pa.int64()) for name in COUNTS),
    ]
)
CONFUSION_SCHEMA = pa.schema([LABEL_COLUMN, ("expected", pa.int64()), ("predicted_0", pa.int64()), ("predicted_1", pa.int64())])


def confusion_schema(evaluation: Evaluation) -> pa.Schema:
    """Return the columns of a confusion matrix: one for each class where the label has classes."""
    if evaluation.classes is None:
        return CONFUSION_SCHEMA
    counts = [(f"predicted_{value}", pa.int64()) for value in evaluation.classes.values]
    return pa.schema([LABEL_COLUMN, ("expected", evaluation.classes.arrow_type), *counts])


def class_confusion(evaluation: Evaluation, classes: Classes, folder: Path, reporter: Reporter) -> pa.Table:
    """Count examples by their class and by the likeliest one: a row for each class."""
    size = len(classes.values)
    counts = np.zeros((size, size), np.int64)
    for (labels,), predictions, *_ in evaluation.samples("ML.CONFUSION_MATRIX", folder, reporter):
        cells = labels.astype(np.int64) * size + predictions.argmax(axis=0)
        counts += np.bincount(cells, minlength=size * size).reshape(size, size)
    names = pa.repeat(pa.scalar(evaluation.labels[0]), size)
    return pa.table([names, classes.array, *map(pa.array, counts.T)], schema=confusion_schema(evaluation))


def check_probabilities(evaluation: Evaluation, function: str) -> None:
    """Refuse a version whose predictions are not probabilities of a label or of classes.

    Raises:
        StatementError: it is one.
    """
    if evaluation.classes is None and not (evaluation.labels and evaluation.classifier):
        raise StatementError(f"{function} needs a label of 0 and 1, or of classes. Measure this model by ML.EVALUATE.")


def roc_schema(evaluation: Evaluation) -> pa.Schema:
    """Return the columns of ROC curves: one for the class where the label has classes."""
    if evaluation.classes is None:
        return ROC_CURVE_SCHEMA
    return ROC_CURVE_SCHEMA.insert(1, pa.field("class", evaluation.classes.arrow_type))


def curves_of(evaluation: Evaluation) -> Iterator[dict[str, pa.Scalar]]:
    """Yield the columns that name each curve: its label, and its class where the label has classes."""
    if evaluation.classes is None:
        yield from ({"label": pa.scalar(label)} for label in evaluation.labels)
    else:
        yield from ({"label": pa.scalar(evaluation.labels[0]), "class": value} for value in evaluation.classes.array)


def roc_curve(evaluation: Evaluation, folder: Path, reporter: Reporter) -> pa.Table:
    """Count, for each distinct prediction as the threshold, the highest first, which examples are predicted 1.

    A label with classes has a curve for each class against all others, by the probability of that class. Above 65,536 examples
    predictions count by bins, see training/metrics/ranking.py, and thresholds are the middles of bins. Rates are NULL where no
    example has their label.

    Source: Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 2006.
    """
    named = list(curves_of(evaluation))
    states = [ranking.zero() for _ in named]
    for labels, predictions, *_ in evaluation.samples("ML.ROC_CURVE", folder, reporter):
        wanted = labels > 0 if evaluation.classes is None else labels == np.arange(len(named))[:, None]
        states = [ranking.merge(state, pair) for state, pair in zip(states, zip(predictions, wanted, strict=True), strict=True)]
    schema = roc_schema(evaluation)
    tables = []
    for names, state in zip(named, states, strict=True):
        found = ranking.curve(state)
        hits, alarms = np.cumsum(found.positives[::-1]), np.cumsum(found.negatives[::-1])
        positives, negatives = int(found.positives.sum()), int(found.negatives.sum())
        rates = [share(hits, positives), share(alarms, negatives)]
        counts = [hits, alarms, negatives - alarms, positives - hits]
        repeated = (pa.repeat(name, len(hits)) for name in names.values())
        arrays = [*repeated, pa.array(found.predictions[::-1]), *rates, *map(pa.array, counts)]
        tables.append(pa.table(arrays, schema=schema))
    return pa.concat_tables(tables)


def share(counts: np.ndarray, whole: int) -> pa.Array:
    """Return counts as shares of a whole, NULL where the whole is 0."""
    return pa.array(counts / whole) if whole else pa.nulls(len(counts), pa.float64())


def confusion_matrix(evaluation: Evaluation, threshold: float, folder: Path, reporter: Reporter) -> pa.Table:
    """Count examples by their label and by whether the prediction reaches the threshold: two rows for each label."""
    counts = np.zeros((len(evaluation.labels), 2, 2), np.int64)
    for labels, predictions, *_ in evaluation.samples("ML.CONFUSION_MATRIX", folder, reporter):
        for number, (label, predicted) in enumerate(zip(labels > 0, predictions >= np.float32(threshold), strict=True)):
            counts[number] += np.bincount(2 * label + predicted, minlength=4).reshape(2, 2)
    rows = [
        {"label": label, "expected": expected, "predicted_0": int(found[0]), "predicted_1": int(found[1])}
        for label, matrix in zip(evaluation.labels, counts, strict=True)
        for expected, found in enumerate(matrix)
    ]
    return pa.Table.from_pylist(rows, CONFUSION_SCHEMA)
