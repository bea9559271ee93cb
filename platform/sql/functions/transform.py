"""ML.TRANSFORM: the columns that a version's TRANSFORM makes of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import StatementError
from ...input.transform import ROWS, TAIL, selected
from ...quoting import quoted
from ...training.clauses.transform import TRANSFORM as CLAUSE
from ..base import Call, TableFunction

if TYPE_CHECKING:
    from ..context import StatementContext


def run(context: StatementContext, call: Call) -> str:
    data = call.data
    assert data is not None  # required by the grammar
    manifest = call.read(context).manifest
    transform = CLAUSE.kept(manifest)
    if transform is None:
        raise StatementError(
            f"Version {manifest.version} of {manifest.model} has no TRANSFORM: its features are the columns of its query."
        )
    with data.locating():
        names = context.engine.schema(data.text).names
        transform.check(names, [item.name for item in transform.items], f"{manifest.model} v{manifest.version}")
    left_out = {name.lower() for name in transform.left_out or ()}
    kept = [] if transform.left_out is None else [name for name in names if name.lower() not in left_out]
    plain = [f"{ROWS}.{quoted(name)}" for name in kept if name.lower() not in transform.computed]
    return f"SELECT {', '.join([*map(selected, transform.items), *plain])} FROM ({data.text}{TAIL}"


TRANSFORM = TableFunction(
    "TRANSFORM",
    "ML.TRANSFORM(MODEL name [VERSION n], TABLE t | (query))",
    "The columns that a model's TRANSFORM computes from rows, and the columns that its * passes on.",
    "required",
    (),
    run,
)
