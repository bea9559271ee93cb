"""Make a log whose label says whether an animal likes a food, which neither column tells alone, beside columns of noise.

    python -m benchmarks.crosses FOLDER ROWS

Source: the benchmark of Fwumious Wabbit (outbrain-inc/fwumious_wabbit, BENCHMARK.md), rebuilt from its description.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.log import PART_ROWS, write

VALUES = 2_000  # of animals and of foods: of 3 million rows 2.1 million pairs differ
NOISE_VALUES = (2, 5, 10, 50, 100, 200, 500, 1_000, 10_000)
PLAIN = "TRAIN OR REPLACE MODEL ctr USING xftrl AS SELECT * FROM parquet.`{data}`"
CROSS = "TRAIN OR REPLACE MODEL ctr USING xftrl CROSS (animal * food) AS SELECT * FROM parquet.`{data}`"
VW_CROSS = "--interactions ab"


def part(number: int, rows: int) -> pa.Table:
    """Return a part of the log: a grass eater likes plants in nine rows of ten, a hunter meat."""
    random = np.random.default_rng((1, number))
    animal, food = random.integers(0, VALUES, (2, rows))
    label = ((animal + food) % 2 == 0) ^ (random.random(rows) < 0.1)
    named = {"animal": texts(("grazer", "hunter"), animal), "food": texts(("plant", "meat"), food)}
    noise = {f"n{n}": texts((f"n{n}",), random.integers(0, most, rows)) for n, most in enumerate(NOISE_VALUES)}
    return pa.table({"label": label.astype(np.int8), **named, **noise})


def texts(kinds: tuple[str, ...], numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """Return values such as hunter-17: the kind by the number."""
    values = pa.array([f"{kinds[n % len(kinds)]}-{n}" for n in range(int(numbers.max()) + 1)])
    return values.take(pa.array(numbers))


def make(folder: Path, rows: int) -> None:
    """Write crosses.parquet and crosses.vw."""
    with (folder / "crosses.vw").open("wb") as text:
        sizes = [min(PART_ROWS, rows - start) for start in range(0, rows, PART_ROWS)]
        write((part(number, size) for number, size in enumerate(sizes)), folder / "crosses.parquet", text)


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]))
