"""ML.FEATURE_IMPORTANCE on data: how much worse predictions become when a slot's values are permuted between rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import DataError, StatementError
from ..input.columns import Columns, columns_in
from ..input.splits import chunk_rows
from ..training.metrics.labels import Values
from ..training.metrics.metrics import LabelMetrics, Targets
from .evaluation import Evaluation
from .prediction import scorer_here
from .scorer import BATCH_SIZES, Request, Scorer

if TYPE_CHECKING:
    from ...warehouse.version import Version
    from ..engines.base import Engine
    from ..progress import Reporter

MOST_ROWS = 100_000
"""Of more rows a sample is drawn, since rows are scored again for every slot."""
MOST_PERMUTATIONS = 5
"""Permutations of a slot, where rows are few, whose mean is taken."""


class Unit(NamedTuple):
    """Columns whose values are permuted together: one, or all columns of one history, whose lengths agree."""

    slots: str
    columns: tuple[str, ...]


class Drawn(NamedTuple):
    """Rows in memory: the model's columns, and float32[num_labels, n] labels."""

    features: pa.Table
    labels: NDArray[np.float32]


def check_measured(version: Version) -> None:
    """Refuse a version that predicts no label.

    Raises:
        StatementError: it is one.
    """
    if not version.manifest.roles.labels:
        raise StatementError(
            f"ML.FEATURE_IMPORTANCE measures predictions of a label, and {version.manifest.model} has none. Leave the "
            "data out to see its weights."
        )


class Permutation:
    """The importance of the slots of a version with labels on a query's rows, checked and to be measured.

    Attributes:
        schema: of the result.

    Raises:
        StatementError: see Evaluation.
    """

    def __init__(self, version: Version, engine: Engine, query: str) -> None:
        self._version = version
        self._evaluation = Evaluation(version, engine, query, None)
        self._columns = columns_in(version)
        several = [("label", pa.string())] if len(self._columns.labels) > 1 else []
        self.schema = pa.schema(
            [*several, ("slot", pa.string()), ("loss_increase", pa.float64()), ("auc_decrease", pa.float64())]
        )

    def measure(self, folder: Path, reporter: Reporter) -> pa.Table:
        """Return a row for each slot, and label where there are several; those whose loss grows most first.

        Source: Breiman, "Random Forests", Machine Learning 2001, section 10; here of rows that need not be left out.

        Raises:
            DataError: there are no rows; see Evaluation.
        """
        manifest = self._version.manifest
        request, random = self._evaluation.request(folder), np.random.default_rng(manifest.seed)
        reporter.start(f"ML.FEATURE_IMPORTANCE of {manifest.model} v{self._version.number}", None)
        try:
            drawn = self._drawn(request, random)
            scorer, rows = scorer_here(request), drawn.features.num_rows
            whole = self._metrics(scorer, drawn, drawn.features)
            times = min(max(MOST_ROWS // rows, 1), MOST_PERMUTATIONS)
            found: list[dict[str, Any]] = []
            for number, unit in enumerate(units_of(self._columns), 1):
                several = [self._metrics(scorer, drawn, shuffled(drawn.features, unit, random)) for _ in range(times)]
                for label in self._evaluation.labels:
                    worse = difference(whole[label], [one[label] for one in several])
                    found.append({"label": label, "slot": unit.slots, **worse._asdict()})
                reporter.update(rows * (1 + number * times), {})
        finally:
            reporter.finish("")
        found.sort(key=lambda row: row["loss_increase"], reverse=True)
        return pa.Table.from_pylist(found, self.schema)

    def _drawn(self, request: Request, random: np.random.Generator) -> Drawn:
        """Read the rows, or a part of them drawn at random where there are more than MOST_ROWS."""
        table = pa.concat_tables(self._pieces(request, random)).combine_chunks()
        if not table.num_rows:
            raise DataError("ML.FEATURE_IMPORTANCE needs rows with labels, and the query returns none.")
        features = table.select(list(request.inputs.values())).rename_columns(list(request.inputs))
        return Drawn(features, self._labels(table, request, 0))

    def _pieces(self, request: Request, random: np.random.Generator) -> Iterator[pa.Table]:
        """Read the rows piece by piece, and keep of each those that are drawn."""
        wanted = list(dict.fromkeys([*request.inputs.values(), *request.carried]))
        schema = pa.schema([request.scan.schema.field(name) for name in wanted])
        part, before = MOST_ROWS / max(sum(split.rows for split in request.splits), 1), 0
        yield schema.empty_table()
        for split in request.splits:
            for table in request.scan.read(split, wanted, chunk_rows(BATCH_SIZES[-1])):
                self._labels(table, request, before)
                before += table.num_rows
                kept = table if part >= 1 else table.filter(pa.array(random.random(table.num_rows) < part))
                yield kept.rename_columns(wanted).cast(schema)

    def _labels(self, table: pa.Table, request: Request, before: int) -> NDArray[np.float32]:
        """Return the labels of rows, checked.

        Args:
            before: rows of the query that come before these.
        """
        names = request.carried[: len(self._evaluation.labels)]
        return self._evaluation.labels_of(table, names, before)

    def _metrics(self, scorer: Scorer, drawn: Drawn, features: pa.Table) -> Mapping[str, Values]:
        """Score rows by some features and measure them by their labels."""
        labels = self._evaluation.labels
        metrics = LabelMetrics(Targets.of(labels, self._evaluation.measured, grouped=False))
        metrics.add(drawn.labels, scorer.predict(features).T[self._evaluation.places])
        return metrics.by_label()


def units_of(columns: Columns) -> list[Unit]:
    """Return the units that are permuted together, in the order of the query."""
    aligned = (record for block, records in columns.blocks if block.aligned for record in records)
    groups = {slot.name: number for number, record in enumerate(aligned) for slot, _ in record}
    found: dict[object, list[tuple[str, str]]] = {}
    for slot in columns.slots:
        if not slot.members:  # crosses are permuted with their members
            found.setdefault(groups.get(slot.name, slot.column), []).append((slot.name, slot.column))
    return [
        Unit(", ".join(name for name, _ in pairs), tuple(dict.fromkeys(column for _, column in pairs)))
        for pairs in found.values()
    ]


def shuffled(features: pa.Table, unit: Unit, random: np.random.Generator) -> pa.Table:
    """Return the rows with the values of some columns in another order, the same for all of those."""
    order = pa.array(random.permutation(features.num_rows))
    for name in unit.columns:
        place = features.schema.get_field_index(name)
        features = features.set_column(place, features.schema.field(place), features.column(place).take(order))
    return features


class Worse(NamedTuple):
    """How much the loss grows and AUC falls, on average; AUC is None where it is undefined."""

    loss_increase: float
    auc_decrease: float | None


def difference(whole: Values, shuffled: list[Values]) -> Worse:
    """Return how much worse the metrics of a label are, on average."""
    loss = change("rmse" if whole["logloss"] is None else "logloss", whole, shuffled)
    return Worse(loss, None if whole["auc"] is None else -change("auc", whole, shuffled))


def change(metric: str, whole: Values, shuffled: list[Values]) -> float:
    """Return the mean difference of a metric that these rows have."""
    return float(np.mean([one[metric] for one in shuffled])) - float(whole[metric] or 0)
