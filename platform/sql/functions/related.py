"""ML.RELATED: pairs of items and their scores; ML.WALKS: random walks over the edges of a query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ..base import Call, Keyword, Pending, TableFunction, column_of

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> pa.Table:
    from ...models.related import related, slots_of

    assert call.data is not None  # required by the grammar
    version = call.read(context)
    item, history = slots_of(version)
    with call.data.locating():
        return related(version, item, history, context.engine.reader(call.data.text).read_all())


RELATED = TableFunction(
    "RELATED",
    "ML.RELATED(MODEL name [VERSION n], TABLE t | (query))",
    "The items related to each, among those that the query returns: item, related, score. "
    "For models of slrm, swing, common_neighbours, and xsvd (slim = true).",
    "required",
    (),
    run,
)


def run_walks(context: StatementContext, call: Call) -> Pending:
    from ...errors import Subject
    from ...graphs.edges import EdgeColumns
    from ...graphs.walks import WalkOptions, Walks
    from ...options import parse

    data, said = call.data, call.keywords
    assert data is not None  # required by the grammar
    options = parse(WalkOptions, said.get("WITH", {}), Subject("WITH"))
    with data.locating():
        walks = Walks(context.engine, data.text, EdgeColumns(said["SOURCE"], said["TARGET"], said.get("WEIGHT")), options)

    def write() -> list[Path]:
        with data.locating():
            return walks.write(call.folder, context.reporter.note)

    return Pending(walks.schema, write)


WALKS = TableFunction(
    "WALKS",
    "ML.WALKS(TABLE t | (query), SOURCE column, TARGET column [, WEIGHT column] [, WITH (option = value, ...)])",
    "Random walks along edges, per_node from each vertex: node, number (from 0) and walk, an array of vertices, which begins "
    "with node and is what word2vec learns from. Options: length (40) vertices at most; per_node (10); p (1) and q (1), by "
    "which node2vec goes back less, and stays nearer; undirected (false); seed (1). An edge is taken as often as its WEIGHT "
    "says. The same seed and edges give the same walks, whatever the order of rows.",
    "required",
    (),
    run_walks,
    model="none",
    keywords=(
        Keyword("SOURCE", column_of, required=True),
        Keyword("TARGET", column_of, required=True),
        Keyword("WEIGHT", column_of),
        Keyword("WITH", lambda cursor: cursor.options()),
    ),
)
