"""Measure what operators cost: CPU milliseconds per push of 16,384 rows, one core, and how many times plain ftrl's.

The table has 2M rows, which no cache holds, as a model's has, and its keys are pushed evenly. The chains take turns, a round
each, so that whatever else the machine does meets all of them; the ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from xpsql.platform.operators import OPERATORS
from xpsql.platform.operators.base import Operator, TableSpec
from xpsql.platform.operators.chains import chain
from xpsql.platform.ps._native import Store
from xpsql.platform.ps.compiled.row_programs import RowPrograms
from xpsql.platform.ps.compiled.table_programs import Programs
from xpsql.platform.ps.messages import Touched
from xpsql.platform.ps.table import Table
from xpsql.platform.training.compiled import prepare_jax

ROWS = 16_384
TABLE_ROWS = 2_000_000
BATCHES = 32
ROUNDS = 10
START, DAY = 1_700_000_000, 86_400
SPEC = TableSpec("weights", 1)
PLAIN = "ftrl"
CHAINS: dict[str, dict[str, dict[str, Any]]] = {
    PLAIN: {},
    "safety, ftrl": {"safety": {"max_weight": 1.0}},
    "average, staleness, safety, decay, ftrl": {
        "gradient_average": {},
        "staleness_discount": {},
        "safety": {"max_weight": 1.0},
        "decay": {"w": 0.99},
    },
    "one of each operator, ftrl": {
        "gradient_average": {},
        "staleness_discount": {},
        "regularize": {},
        "safety": {"max_gradient": 10.0, "max_weight": 10.0},
        "decay": {"half_life": "30 days"},
        "auto_session": {},
    },
}


def made(name: str, options: dict[str, Any]) -> Operator:
    part = next(part for part in OPERATORS if part.name == name)
    operator: Operator = part.make(part.options(**options), SPEC)
    return operator


class Bench:
    """A table of a chain and the pushes that it is measured with, a sixth of whose occurrences are clicked."""

    def __init__(self, operators: dict[str, dict[str, Any]]) -> None:
        composed = chain(*(made(*one) for one in operators.items()), made("ftrl", {}))
        self._table = Table(RowPrograms([Programs(SPEC, composed, 7)]), Store)
        generator = np.random.default_rng(0)
        pool = generator.integers(1, 1 << 64, TABLE_ROWS, np.uint64)
        self._table.store.insert(pool)
        self._gradients = {SPEC.name: generator.normal(size=(ROWS, 1)).astype(np.float32)}
        self._seen, slots = np.zeros(ROWS, np.uint32), np.ones(ROWS, np.uint16)
        counts = generator.integers(1, 4, ROWS, np.uint32)
        parts = generator.permutation(pool)[: BATCHES * ROWS].reshape(BATCHES, ROWS)
        self._work = [Touched(keys, slots, counts, counts // 3, START + DAY * day) for day, keys in enumerate(parts)]

    def milliseconds(self) -> float:
        """Return the CPU time of a push."""
        start = time.process_time()
        for touched in self._work:
            self._table.push(touched, self._seen, {}, self._gradients, touched.time_seconds)
        return (time.process_time() - start) / BATCHES * 1e3


def main() -> None:
    """Print two lines for each chain: figure, unit, chain."""
    prepare_jax()
    benches = {name: Bench(operators) for name, operators in CHAINS.items()}
    rounds = [{name: bench.milliseconds() for name, bench in benches.items()} for _ in range(ROUNDS + 1)][1:]
    for name in CHAINS:
        print(f"{statistics.median(one[name] for one in rounds):.3f} ms {name}", flush=True)
        if name != PLAIN:
            print(f"{statistics.median(one[name] / one[PLAIN] for one in rounds):.2f} x {name}", flush=True)


if __name__ == "__main__":
    main()
