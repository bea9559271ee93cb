"""ML.EVALUATE: the metrics of a version, on data or as its training found them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import ModelError, StatementError
from ..base import Call, Pending, TableFunction

if TYPE_CHECKING:
    from ....warehouse.version import Version
    from ...engines.spark_sql.passage import Passage
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table | Pending:
    ks = numbers_of_items(call.arguments[0]) if call.arguments else ()
    version, data = call.read(context), call.data
    if data is None:
        return of_training(version)
    if call.items is not None:
        return of_retrieval(context, call, version, data, call.items, ks)

    from ...models.vertices import refuse_edges
    from ...scoring.evaluation import Evaluation

    refuse_edges(version.manifest, "ML.EVALUATE measures predictions")
    with data.locating():
        group = version.manifest.roles.group if version.manifest.roles.labels else None
        evaluation = Evaluation(version, context.engine, data.text, group)

    def measure() -> pa.Table:
        with data.locating():
            return evaluation.measure(call.folder, context.reporter)

    return Pending(evaluation.schema, measure)


def numbers_of_items(k: Any) -> tuple[int, ...]:
    """Return k, or each of several.

    Raises:
        StatementError: one is not a whole number of items.
    """
    ks = k if isinstance(k, tuple) else (k,)
    if not ks or any(isinstance(one, bool) or not isinstance(one, int) or one < 1 for one in ks):
        raise StatementError(f"ML.EVALUATE takes a number of items, 1 or more, or several, like (10, 50); got {k!r}.")
    return tuple(dict.fromkeys(ks))


def of_retrieval(
    context: StatementContext, call: Call, version: Version, data: Passage, items: Passage, ks: tuple[int, ...]
) -> Pending:
    """Return the metrics of the best items of each row."""
    from ...scoring.catalogue import catalogue_of
    from ...scoring.retrieval import SCHEMA, Retrieval

    with items.locating():
        catalogue = catalogue_of(version, context.engine.reader(items.text).read_all(), max(ks))
    with data.locating():
        retrieval = Retrieval(version, context.engine, data.text, catalogue, ks, call.exclude)

    def measure() -> pa.Table:
        with data.locating():
            return retrieval.measure(context.reporter)

    return Pending(SCHEMA, measure)


def of_training(version: Version) -> pa.Table:
    """Return the metrics of its training; `measured_on` says whether examples were scored before they were learned from.

    Raises:
        ModelError: it learned from no examples: SHRINK made it.
    """
    metrics = version.manifest.metrics
    if not metrics:
        raise ModelError(
            f"Version {version.number} of model {version.manifest.model} was not made by a training and has no metrics of one. "
            "Give ML.EVALUATE data: ML.EVALUATE(MODEL name, TABLE t)."
        )
    from ...training.metrics.labels import divided, metrics_schema
    from ...training.metrics.measured import MEASURED_ON, measured_on

    labels = version.manifest.roles.labels
    found = {label: values for label, values in divided(metrics, labels or ("",)).items() if {*values} - {"examples"}}
    rows = [{"label": label, **values, MEASURED_ON.name: measured_on(version.manifest)} for label, values in found.items()]
    return pa.Table.from_pylist(rows, metrics_schema(next(iter(found.values())), len(labels) > 1).append(MEASURED_ON))


EVALUATE = TableFunction(
    "EVALUATE",
    "ML.EVALUATE(MODEL name [VERSION n] [, TABLE t | (query) [, ITEMS TABLE t | (query), k [, EXCLUDE column]] "
    "[, VECTORS name AS (query)] ...])",
    "One row of metrics: on data with labels, or, without data, the training's. With several labels, a row for each. With "
    "ITEMS a row for each k: recall, ndcg, hit_rate and coverage of the k best of all items, where the column with the "
    "item's name holds the item, or array of items, that a row took.",
    "optional",
    ("a number of items",),
    run,
    items="before",
    vectors=True,
)
