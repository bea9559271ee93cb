"""The strategy of vertex programs, which learn from all edges at once: its checks, its cost, and where it runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from ....algorithms.vertex_program import GraphRound
from ...cores import cores
from ...engines.tasks import Tasks
from ...errors import StatementError
from ...input.columns import Columns
from ...operators.base import NO_BATCHES
from ..clauses.weight import WEIGHT
from ..compiled import share_work
from ..estimates import GROWTH, Cost
from ..monitor import Monitor
from ..plan import Plan
from ..prepared import Prepared
from ..recipe import Recipe, used_operators
from ..row_files.saved import SavedShards
from ..solved import strategy as solved
from ..solved.cost import first_rows
from .learn import learn_here, learn_on
from .part import part_of, program_of

if TYPE_CHECKING:
    from ....warehouse.draft import Draft
    from ....warehouse.version import Version

ROWS = 1 << 17
USUAL_ROUNDS = 20
EDGE_BYTES, VERTEX_BYTES = 12, 60
"""Of memory: of an edge with its weight, and of a vertex in all arrays of a round."""


def check(plan: Plan, recipe: Recipe, columns: Columns, parent: Version | None, tasks: Tasks | None) -> None:
    """See Strategy: refuse operators, weights without effect, and clauses about batches."""
    program, name = recipe.algorithm.program, plan.algorithm.name
    for operator in used_operators(plan):
        solved.refuse_operator(plan, operator, NO_BATCHES)
    solved.check_batches(plan)
    assert program is not None  # whose strategy this is
    if columns.weight is not None and not program.takes_weights:
        message = f"{WEIGHT} has no effect: {name} counts edges, whatever they weigh. Leave it out, and {columns.weight} too."
        raise StatementError(message, subject=WEIGHT.subject)


def learn(prepared: Prepared, tasks: Tasks | None, draft: Draft, monitor: Monitor) -> SavedShards:
    """See Strategy."""
    return learn_here(prepared, draft, monitor) if tasks is None else learn_on(tasks, prepared, draft, monitor)


def cost(prepared: Prepared) -> Cost:
    """See Strategy: the first edges are read, and one round is run over them."""
    share_work(cores())
    first = first_rows(prepared, ROWS)
    program, begun = program_of(prepared), time.perf_counter()
    part = part_of(first, 0, 1)
    read, count, vertices = time.perf_counter(), max(part.found.edges, 1), len(part.found.keys)
    part.along(part.found.keys.view(np.int64), GraphRound(0, 0))
    rounds = min(program.rounds, USUAL_ROUNDS) * (time.perf_counter() - read)
    every = prepared.counts.total
    found = int(vertices * (every / count) ** GROWTH)
    return Cost((read - begun + rounds) * every / count, found, every * EDGE_BYTES * (1 + program.both) + found * VERTEX_BYTES)
