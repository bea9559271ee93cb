"""ML.EXPLAIN_PREDICT: a query's rows with a version's predictions and attributions of slots, as Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ..cores import cores
from ..engines.base import Engine, staged
from ..errors import StatementError
from ..training.compiled import share_work
from .explainer import Explainer, explained_fields
from .prediction import check_new, is_small
from .rows import rows_of
from .scorer import Request, predictions_of
from .tasks import score_on
from .weights import Weights

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..progress import Reporter


def check_labelled(version: Version) -> None:
    """Refuse a version that predicts no label.

    Raises:
        StatementError: it is one.
    """
    manifest = version.manifest
    if not manifest.roles.labels:
        raise StatementError(
            f"ML.EXPLAIN_PREDICT takes predictions of a label apart, and {manifest.model} has none: "
            f"{manifest.algorithm.name} learns without labels. Look at its features by ML.WEIGHTS or ML.NEAREST."
        )
    if manifest.vectors:
        names = ", ".join(vectors.name for vectors in manifest.vectors)
        raise StatementError(
            f"ML.EXPLAIN_PREDICT takes a score apart by features, and {manifest.model} sees vectors by ids, too: {names}. "
            "Train a model without them to compare."
        )
    if manifest.roles.classes:
        raise StatementError(
            f"ML.EXPLAIN_PREDICT takes one score apart, and {manifest.model} has one for each of "
            f"{len(manifest.roles.classes)} classes. Look at ML.FEATURE_IMPORTANCE, or train a model whose label is 1 for the "
            "class in question."
        )


class Explanation:
    """A query's columns, predictions of a version with labels and their explanations, checked and to be written; of several
    labels a row for each.

    Args:
        top: attributions of a row, at most.

    Attributes:
        schema: the result's columns.

    Raises:
        StatementError: see Prediction.
    """

    def __init__(self, version: Version, engine: Engine, query: str, top: int) -> None:
        self._version, self._engine, self._top = version, engine, top
        self._rows = rows_of(version, engine, query)
        self._added = [*predictions_of(version), *explained_fields(version.manifest.roles.labels)]
        check_new(self._added, self._rows.schema.names)
        self.schema = pa.schema([*self._rows.schema, *self._added])

    def write(self, columns: frozenset[str] | None, folder: Path, reporter: Reporter) -> list[Path]:
        """Explain the rows; see Prediction.write."""
        version, rows = self._version, self._rows
        scan = staged(self._engine, rows.query, rows.found, folder / "input")
        carried = [name for name in rows.schema.names if columns is None or name.lower() in columns]
        schema = pa.schema([*(scan.schema.field(name) for name in carried), *self._added])
        request = Request(version, scan, scan.splits(), rows.inputs, tuple(carried), schema, self._top)
        reporter.start(f"ML.EXPLAIN_PREDICT with {version.manifest.model} v{version.number}", None)
        try:
            if self._engine.tasks is not None and not is_small(request):
                return score_on(self._engine.tasks, request, folder, reporter)
            share_work(cores())
            explainer, done = Explainer(version, Weights(version, 0, 1).pull, self._top), 0
            for count in explainer.write(request, request.splits, folder / "explanations.parquet"):
                done += count
                reporter.update(done, {})
            return [folder / "explanations.parquet"]
        finally:
            reporter.finish("")
