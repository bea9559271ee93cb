"""The cost of learning by another package: it learns from the first examples, and from four times as many."""

from __future__ import annotations

import time

from ...cores import cores
from ..estimates import Cost, estimated_bytes
from ..prepared import Prepared
from ..solved.cost import first_rows
from ..solved.solve import stored_rows
from .examples import PackageExamples, learner_of
from .learn import numbered
from .matrix import TABLE, column_names

FEW, MORE = 2048, 8192
COPIES = 3  # of the matrix: its parts, the whole, and the package's


def cost(prepared: Prepared) -> Cost:
    """Return the cost of learning: a fixed part, and a part in proportion to the number of examples."""
    every = prepared.counts.total
    learned(prepared, FEW)  # the package loads
    few, first = learned(prepared, FEW)
    more, second = learned(prepared, MORE)
    each = (second - first) / (more - few) if more > few else second / max(more, 1)
    total = second + max(each, 0.0) * (every - more)
    most = learner_of(prepared).categories
    features = prepared.features(most)
    matrix = COPIES * 4 * len(column_names(prepared.columns)) * every
    return Cost(total, features, estimated_bytes(prepared.recipe, features) + matrix)


def learned(prepared: Prepared, count: int) -> tuple[int, float]:
    """Learn from the first examples, and return how many there are and the seconds that it took."""
    part, begun = first_rows(prepared, count), time.perf_counter()
    examples = PackageExamples(part, range(len(part.splits)))
    numbers = numbered(examples.features, stored_rows(part, TABLE), learner_of(part).categories)
    examples.learn(numbers, cores(), None)
    return examples.examples, time.perf_counter() - begun
