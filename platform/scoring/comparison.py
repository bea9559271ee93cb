"""ML.COMPARE: the metrics of two versions on the same rows, and the confidence of their difference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..engines.base import Engine, Staged
from ..errors import DataError, StatementError, suggestion
from ..quoting import quoted
from ..training.policies import bootstrap
from .evaluation import Evaluation

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..progress import Reporter

NUMBERS = ("model_value", "other_value", "difference", "low", "high")
SEED = 7
SAID = {
    "classes": "0 or 1",
    "multiclass": "several classes, which ML.EVALUATE measures",
    "numbers": "numbers",
    "found": "what was taken",
}


class Found(NamedTuple):
    """What a version predicts: float32[num_labels, n] labels and predictions, int64[n] groups, empty where there are none."""

    labels: NDArray[np.float32]
    predictions: NDArray[np.float32]
    groups: NDArray[np.int64]


class Comparison:
    """Two versions on a query's rows, checked and to be compared.

    Args:
        versions: what is compared, and with what.
        group: the column whose rows are drawn together; None where each row is drawn by itself.

    Attributes:
        schema: of the result.

    Raises:
        StatementError: the query cannot run or lacks a column; the versions have no label of the query in common, or labels of
            different kinds.
    """

    def __init__(self, versions: tuple[Version, Version], engine: Engine, query: str, group: str | None) -> None:
        self._versions, self._engine, self._query, self._group = versions, engine, query, group
        names = engine.schema(query).names
        if group is not None and group.lower() not in (name.lower() for name in names):
            raise StatementError(f"GROUP names {group!r}, which the query does not return.{suggestion(group, names)}")
        one, other = self._evaluations(query)
        lowered = {label.lower(): label for label in other.labels}
        self._labels = {label: lowered[label.lower()] for label in one.labels if label.lower() in lowered}
        if not self._labels or one.kind != other.kind or one.classes is not None:
            raise StatementError(
                f"ML.COMPARE needs two models of one label: {said(versions[0], one)}, {said(versions[1], other)}."
            )
        self._classes, several = one.classifier, len(self._labels) > 1
        self.schema = pa.schema(
            [
                *([("label", pa.string())] if several else []),
                ("metric", pa.string()),
                *((name, pa.float64()) for name in NUMBERS),
                ("examples", pa.int64()),
                ("groups", pa.int64()),
            ]
        )

    def measure(self, folder: Path, reporter: Reporter) -> pa.Table:
        """Score the rows by both versions and return a row for each label and metric.

        Args:
            folder: see Evaluation.measure.

        Raises:
            DataError: there are no rows; see Evaluation.measure.
        """
        one, other = self._found(folder, reporter)
        examples = one.labels.shape[1]
        if not examples:
            raise DataError("ML.COMPARE needs rows with labels, and the query returns none.")
        _, groups = np.unique(one.groups, return_inverse=True)
        rows = []
        for number, label in enumerate(self._labels):
            pairs = self._metrics(one.labels[number], one.predictions[number], other.predictions[number])
            found = bootstrap.intervals(list(pairs.values()), examples, groups, SEED)
            shared = {"label": label, "examples": examples, "groups": int(groups.max()) + 1 if len(groups) else None}
            rows += [
                {**shared, "metric": metric, **dict(zip(NUMBERS, values, strict=True))}
                for metric, values in zip(pairs, found, strict=True)
            ]
        return pa.Table.from_pylist(rows, self.schema)

    def _evaluations(self, query: str) -> tuple[Evaluation, Evaluation]:
        one, other = (Evaluation(version, self._engine, query, self._group) for version in self._versions)
        return one, other

    def _found(self, folder: Path, reporter: Reporter) -> tuple[Found, Found]:
        """Score the same rows by both, in the same order: what cannot be read in place is written once."""
        query = self._query
        if isinstance(self._engine.scan(query), Staged):
            self._engine.stage(query, folder / "rows")
            query = f"SELECT * FROM parquet.{quoted(str((folder / 'rows').absolute()))}"
        one, other = self._evaluations(query)
        mine = gathered(one, tuple(self._labels), folder / "model", reporter)
        others = gathered(other, tuple(self._labels.values()), folder / "other", reporter)
        if not np.array_equal(mine.labels, others.labels) or not np.array_equal(mine.groups, others.groups):
            raise DataError(
                "The query gave the two models different rows, or another order. Write it to a table by CREATE TABLE t AS "
                "query, and compare on TABLE t."
            )
        return mine, others

    def _metrics(
        self, labels: NDArray[np.float32], one: NDArray[np.float32], other: NDArray[np.float32]
    ) -> dict[str, tuple[bootstrap.Metric, bootstrap.Metric]]:
        """Return what is compared, by name."""
        if not self._classes:
            return {
                "rmse": (bootstrap.rmse(labels, one), bootstrap.rmse(labels, other)),
                "mae": (bootstrap.mae(labels, one), bootstrap.mae(labels, other)),
            }
        positive = labels > 0
        return {
            "auc": (bootstrap.auc(positive, one), bootstrap.auc(positive, other)),
            "logloss": (bootstrap.logloss(positive, one), bootstrap.logloss(positive, other)),
        }


def said(version: Version, evaluation: Evaluation) -> str:
    """Return what a version predicts of the query's labels, in words."""
    name = f"{version.manifest.model} v{version.number}"
    if not evaluation.labels:
        return f"{name} predicts none of the query's columns"
    return f"{name} predicts {', '.join(evaluation.labels)} as {SAID[evaluation.kind]}"


def gathered(evaluation: Evaluation, labels: tuple[str, ...], folder: Path, reporter: Reporter) -> Found:
    """Score rows and keep some labels of them."""
    folder.mkdir(parents=True, exist_ok=True)
    samples = list(evaluation.samples("ML.COMPARE", folder, reporter))
    if not samples:
        none = np.empty((len(labels), 0), np.float32)
        return Found(none, none, np.empty(0, np.int64))
    places = [evaluation.labels.index(label) for label in labels]
    joined = [np.concatenate(parts, axis=-1) for parts in zip(*(sample[:3] for sample in samples), strict=True)]
    return Found(joined[0][places], joined[1][places], joined[2])
