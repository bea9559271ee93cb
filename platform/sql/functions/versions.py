"""ML.MODELS and ML.VERSIONS, the models of the warehouse and their versions; ML.OPTIONS and ML.MERGE_INFO, what made one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table:
    from ...models.listings import versions_table

    if call.model:
        found = context.models.versions(call.model)
        wanted = [version for version in found if call.version in (None, version.number)]
        wanted = wanted or [context.models.find(call.model, call.version)]
    else:  # a model may have been dropped between the two looks
        wanted = [version for name in context.models.names(None) for version in context.models.shown(name)]
    return versions_table(wanted, with_model=True)


def run_models(context: StatementContext, call: Call) -> pa.Table:
    from ...models.listings import models_table

    return models_table(context.models, None)


MODELS = TableFunction(
    "MODELS",
    "ML.MODELS()",
    "The models, as SHOW MODELS lists them: a row each.",
    "none",
    (),
    run_models,
    model="none",
)

VERSIONS = TableFunction(
    "VERSIONS",
    "ML.VERSIONS([MODEL name [VERSION n]])",
    "The versions of a model, or of all models, as SHOW VERSIONS lists them: `model`, then a row for each, oldest first.",
    "none",
    (),
    run,
    model="optional",
)

COUNTS = ("examples", "rows", "only_here", "shared")
SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("identity", pa.string()),
        *((name, pa.int64()) for name in COUNTS),
        ("weight", pa.float64()),
        ("distance", pa.float64()),
    ]
)


def run_merge_info(context: StatementContext, call: Call) -> pa.Table:
    version = context.models.find(call.model, call.version)
    merged = version.manifest.learned.origin.merged
    if not merged:
        context.reporter.note(
            f"Version {version.number} of model {version.manifest.model} was not made by MERGE MODEL: ML.MERGE_INFO is empty."
        )
    return pa.Table.from_pylist([dataclasses.asdict(one) for one in merged], SCHEMA)


MERGE_INFO = TableFunction(
    "MERGE_INFO",
    "ML.MERGE_INFO(MODEL name [VERSION n])",
    "What MERGE MODEL made a version of: source, identity, examples that it learned since, rows of its first table, only_here, "
    "shared, weight (its share by examples), distance (the L2 norm of what it changed of the first table's weights).",
    "none",
    (),
    run_merge_info,
)


def run_options(context: StatementContext, call: Call) -> pa.Table:
    from ...models.options import options_of

    return options_of(context.models.find(call.model, call.version).manifest)


OPTIONS = TableFunction(
    "OPTIONS",
    "ML.OPTIONS(MODEL name [VERSION n])",
    "The options of a version: clause (USING, OPERATORS, WITH), part, option, value, default, whether it was given, and "
    "chosen_by: user, default, or rule, as for a batch size by the number of rows.",
    "none",
    (),
    run_options,
)
