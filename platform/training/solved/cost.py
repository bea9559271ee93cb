"""The cost of learning all examples at once: the solver runs on the first of them."""

from __future__ import annotations

import dataclasses
import time
from statistics import median
from typing import NamedTuple

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

FEW, MORE = 2048, 8192
KEPT_TWICE = 2  # as encoded, and as the search takes them


class Tried(NamedTuple):
    """A search on the first examples.

    Attributes:
        encoding, step: seconds of reading and encoding them, and of a step.
        steps: how many the search took.
    """

    examples: KeptExamples
    encoding: float
    step: float
    steps: int

    @property
    def rows(self) -> int:
        return max(1, self.examples.examples)


def cost(prepared: Prepared) -> Cost:
    """Return the cost of the search: about as many steps as on the first rows, each with a fixed part, and a part in proportion
    to the rows."""
    share_work(cores())
    every = prepared.counts.total
    few, more = (tried(prepared, rows) for rows in (FEW, MORE))

    def of_all(first: float, second: float) -> float:
        between = more.rows - few.rows
        each = (second - first) / between if between > 0 else second / more.rows
        return second + max(each, 0.0) * (every - more.rows)

    features = prepared.features()
    kept = KEPT_TWICE * more.examples.bytes * every // more.rows
    total = of_all(few.encoding, more.encoding) + more.steps * of_all(few.step, more.step)
    return Cost(total, features, estimated_bytes(prepared.recipe, features) + kept)


def tried(prepared: Prepared, rows: int) -> Tried:
    """Search on the first rows."""
    part = first_rows(prepared, rows)
    for _ in range(2):  # the second time all is warm
        begun = time.perf_counter()
        examples = KeptExamples(part, range(len(part.splits)), prepared.places.workers)
        examples.scale(examples.moments)
    encoding = time.perf_counter() - begun
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
    return Tried(examples, encoding, median(steps), len(steps))


def first_rows(prepared: Prepared, count: int) -> Prepared:
    """Return a training on the first rows of its input."""
    every = prepared.counts.rows
    left, splits = beginning_of(prepared.scan, prepared.splits, every, min(1.0, count / max(prepared.counts.total, 1)))
    counts = left_by(left, splits, RowCounts(every[: len(splits)], prepared.counts.exact))
    return dataclasses.replace(prepared, scan=left, splits=splits, counts=counts, parent=None)
