"""ML.EXPLAIN_PREDICT: a query's rows with a version's predictions and attributions of slots, as Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..cores import cores
from ..engines.base import Engine
from ..engines.staging import staged
from ..errors import DataError, StatementError
from ..input.splits import chunk_rows
from ..training.compiled import share_work
from ..training.recipe import algorithm_of
from .attributions import MeanScores
from .explainer import Explainer, explained_fields
from .prediction import check_new, is_small
from .rows import ScoredRows, rows_of
from .scorer import BATCH_SIZES, Request, predictions_of
from .tasks import score_on
from .weights import Weights

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..progress import Reporter


FEW_ROWS, MOST_ROWS = 30, 4096
"""A note says that a baseline is of fewer rows; of more, so many are taken, evenly spread."""


def spread(rows: ScoredRows, engine: Engine, folder: Path) -> Iterator[pa.Table]:
    """Yield MOST_ROWS rows at most, under the names of the version's columns, evenly spread over those of a query."""
    scan = staged(engine, rows.query, rows.found, folder)
    splits = scan.splits()
    step, at = -(-sum(split.rows for split in splits) // MOST_ROWS), 0
    for split in splits:
        for table in scan.read(split, list(dict.fromkeys(rows.inputs.values())), chunk_rows(BATCH_SIZES[-1])):
            taken = np.arange(-at % step, table.num_rows, step) if step > 1 else np.arange(table.num_rows)
            at += table.num_rows
            yield table.take(taken).select(list(rows.inputs.values())).rename_columns(list(rows.inputs))


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
        self._rows: ScoredRows = rows_of(version, engine, query)
        self._baseline: ScoredRows | None = None
        self._added = [*predictions_of(version), *explained_fields(version.manifest.roles.labels)]
        check_new(self._added, self._rows.schema.names)
        self.schema = pa.schema([*self._rows.schema, *self._added])

    def check_baseline(self, query: str) -> None:
        """Take the rows of another query as the reference.

        Raises:
            StatementError: see Prediction.
        """
        self._baseline = rows_of(self._version, self._engine, query)

    def reference(self, folder: Path, reporter: Reporter) -> MeanScores | None:
        """Return the means of the rows of BASELINE, or of the query's own; None of a package, which has means of its own.

        Args:
            folder: see Prediction.write.

        Raises:
            DataError: there is nothing to compare with.
        """
        if self._baseline is None and algorithm_of(self._version.manifest).learns.learner is not None:
            return None
        share_work(cores())
        explainer = Explainer(self._version, Weights(self._version, 0, 1).pull, self._top, None)
        found, count = explainer.mean(spread(self._baseline or self._rows, self._engine, folder))
        if self._baseline is not None and not count:
            raise DataError("BASELINE returns no rows, so there is no mean score to explain others by.")
        if self._baseline is None and count == 1:
            raise DataError(
                "One row is its own mean, from which nothing differs. Say what it is compared with: BASELINE TABLE t, or "
                "explain more rows and filter the result."
            )
        if 0 < count < FEW_ROWS:
            reporter.note(f"The baseline is the mean score of {count} rows. Of more it would say more: BASELINE TABLE t.")
        return found

    def write(
        self, reference: MeanScores | None, columns: frozenset[str] | None, folder: Path, reporter: Reporter
    ) -> list[Path]:
        """Explain the rows; see Prediction.write."""
        version, rows = self._version, self._rows
        scan = staged(self._engine, rows.query, rows.found, folder / "input")
        carried = [name for name in rows.schema.names if columns is None or name.lower() in columns]
        schema = pa.schema([*(scan.schema.field(name) for name in carried), *self._added])
        request = Request(version, scan, scan.splits(), rows.inputs, tuple(carried), schema, self._top, reference)
        reporter.start(f"ML.EXPLAIN_PREDICT with {version.manifest.model} v{version.number}", None)
        try:
            if self._engine.tasks is not None and not is_small(request):
                return score_on(self._engine.tasks, request, folder, reporter)
            share_work(cores())
            explainer, done = Explainer(version, Weights(version, 0, 1).pull, self._top, reference), 0
            for count in explainer.write(request, request.splits, folder / "explanations.parquet"):
                done += count
                reporter.update(done, {})
            return [folder / "explanations.parquet"]
        finally:
            reporter.finish("")
