"""The cost of learning all examples at once: the solver runs on the first of them."""

from __future__ import annotations

import dataclasses
import time
from statistics import median

import numpy as np

from ....algorithms.solver import Doubles, SolverInput
from ...cores import cores
from ...input.hold_out import beginning_of
from ...input.row_counts import RowCounts, left_by
from ...reserved import INTERCEPT_NUMBER
from ..compiled import share_work
from ..estimates import Cost, estimated_bytes
from ..prepared import Prepared
from .examples import KeptExamples

ROWS = 8192
KEPT_TWICE = 2  # as encoded, and as the search takes them


def cost(prepared: Prepared) -> Cost:
    """Return the cost of the search: about as many steps as on the first rows, each in proportion to the rows."""
    share_work(cores())
    every = prepared.counts.total
    part = first_rows(prepared, ROWS)
    for _ in range(2):  # the second time all is warm
        begun = time.perf_counter()
        examples = KeptExamples(part, range(len(part.splits)), prepared.places.workers)
        examples.scale(examples.moments)
    encoded, count = time.perf_counter() - begun, max(1, examples.examples)
    steps: list[float] = []
    algorithm = prepared.recipe.algorithm
    solve = algorithm.learns.solve
    assert solve is not None
    (table,) = algorithm.tables
    shape = len(examples.features.keys), table.dim

    def objective(flat: Doubles) -> tuple[float, Doubles]:
        start = time.perf_counter()
        found = examples.evaluate(flat.reshape(shape))
        steps.append(time.perf_counter() - start)
        return found.loss, found.gradient.reshape(-1)

    counts = np.repeat(examples.features.counts.astype(np.float64), table.dim)
    known = SolverInput(np.zeros(counts.size), counts, np.repeat(examples.features.slots == INTERCEPT_NUMBER, table.dim))
    solve(objective, known, lambda iteration, value: None)
    features = prepared.features()
    kept = KEPT_TWICE * examples.bytes * every // count
    times = every / count
    total = times * (encoded + len(steps) * median(steps))
    return Cost(total, features, estimated_bytes(prepared.recipe, features) + kept)


def first_rows(prepared: Prepared, count: int) -> Prepared:
    """Return a training on the first rows of its input."""
    every = prepared.counts.rows
    left, splits = beginning_of(prepared.scan, prepared.splits, every, min(1.0, count / max(prepared.counts.total, 1)))
    counts = left_by(left, splits, RowCounts(every[: len(splits)], prepared.counts.exact))
    return dataclasses.replace(prepared, scan=left, splits=splits, counts=counts, parent=None)
