"""ML.WEIGHTS: one row per feature that a version knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> str:
    from ...models.weights import weights

    version = call.read(context)
    return call.stack.enter_context(weights(version, context.engine)).select()


WEIGHTS = TableFunction(
    "WEIGHTS",
    "ML.WEIGHTS(MODEL name [VERSION n])",
    "The features: slot, key, weight (or weights), count, updates, last_seen, shows, clicks, utility, information; "
    "table before those where the model has several, as fm has weights and vectors; offered where operators offer something. "
    "Of an algorithm over a graph, such as pagerank, the vertices: slot, key, value, count (of its edges).",
    "none",
    (),
    run,
)
