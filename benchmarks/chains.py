"""Measure what operators cost: milliseconds per push of 16,384 rows, one core, warm."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpsql.platform.operators import OPERATORS
from xpsql.platform.operators.base import Operator, TableSpec, chain
from xpsql.platform.ps.programs import Programs
from xpsql.platform.ps.table import Table, Touched

ROWS = 16_384
BATCHES = 8
ROUNDS = 9
SPEC = TableSpec("weights", 1)
CHAINS: dict[str, dict[str, dict[str, Any]]] = {
    "ftrl": {},
    "safety, ftrl": {"safety": {"max_weight": 1.0}},
    "average, staleness, safety, decay, ftrl": {
        "gradient_average": {},
        "staleness_discount": {},
        "safety": {"max_weight": 1.0},
        "decay": {"w": 0.99},
    },
}


def made(name: str, options: dict[str, Any]) -> Operator:
    part = next(part for part in OPERATORS if part.name == name)
    operator: Operator = part.make(part.options(**options), SPEC)
    return operator


def milliseconds(operators: Sequence[Operator]) -> float:
    """Return the median over rounds of the time per push."""
    table = Table(Programs(SPEC, chain(*operators), 7))
    generator, once = np.random.default_rng(0), np.ones(ROWS, np.uint32)
    gradients = np.ones((ROWS, 1), np.float32)
    pool = generator.permutation(np.arange(1, 20 * ROWS, dtype=np.uint64))
    work = [
        Touched(generator.choice(pool, ROWS, replace=False), np.ones(ROWS, np.uint16), once, once, 0) for _ in range(BATCHES)
    ]
    times = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        for touched in work:
            table.push(touched, once, None, gradients, 0)
        times.append((time.perf_counter() - start) / BATCHES)
    return statistics.median(times[1:]) * 1e3


def main() -> None:
    """Print a line for each chain: figure, unit, chain."""
    for name, operators in CHAINS.items():
        chained = [made(operator, options) for operator, options in operators.items()]
        print(f"{milliseconds([*chained, made('ftrl', {})]):.3f} ms {name}", flush=True)


if __name__ == "__main__":
    main()
