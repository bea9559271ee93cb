"""A stream of ever new features: rows, memory and AUC of a training with and without admission and expiry, as it goes on.

python -m benchmarks.stream [--rows 2000000] [--plot FILE.svg]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import expit

import xpsql
from benchmarks.log import mixed
from xpsql.platform.progress import SilentReporter

PART_ROWS = 100_000
ITEMS = 20_000  # that live at a time
LIFE_SECONDS = 86_400
LIFE = "OPERATORS (admit (min_count = 2, within = '6 hours'), expire (after = '1 day'))"
POINTS = 10


def parts(rows: int) -> Iterator[pa.Table]:
    """Yield a log of one example a second, in which every item lives for about a day and none comes back."""
    for first in range(0, rows, PART_ROWS):
        generator = np.random.default_rng(first)
        seconds = np.arange(first, first + PART_ROWS)
        age = generator.exponential(0.3, PART_ROWS) * ITEMS
        items = (seconds * (ITEMS / LIFE_SECONDS) - age).astype(np.int64) + ITEMS * 10
        users = generator.zipf(1.3, PART_ROWS) % 50_000
        once = mixed(seconds.astype(np.uint64), 5).astype(np.int64)  # a value that occurs once, as request ids do
        scores = 2 * taste(items, 1) + taste(users, 2) - 1
        labels = (generator.random(PART_ROWS) < expit(scores)).astype(np.int8)
        columns = {"label": labels, "ts": 1_700_000_000 + seconds, "item": items, "user": users, "once": once}
        yield pa.table(columns)


def taste(values: np.ndarray, seed: int) -> np.ndarray:
    """Return the true weights of values, uniform in [-1, 1]."""
    weights: np.ndarray = (mixed(values.astype(np.uint64), seed) >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1
    return weights


def windows(data: Path, folder: Path, operators: str) -> list[dict[str, Any]]:
    """Train on the log and return what ML.TRAINING_INFO says of its windows."""
    with xpsql.connect(folder, reporter=SilentReporter()) as session:
        clauses = f"TIME ts {operators} EVALUATE EVERY 20 BATCHES ON 5 BATCHES"
        query = f"SELECT * FROM parquet.`{data}`"
        session.sql(f"TRAIN MODEL m USING xftrl {clauses} WITH (batch_size = 2048, workers = 1) AS {query}")
        reported = "SELECT rows, memory_bytes, auc FROM ML.TRAINING_INFO(MODEL m) WHERE window IS NOT NULL"
        found: list[dict[str, Any]] = session.sql(reported).arrow().to_pylist()
        return found


def plot(file: str, curves: dict[str, list[dict[str, Any]]], rows: int) -> None:
    """Draw rows, memory and AUC over the stream; needs matplotlib (extra: bench)."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "stream"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(10, 2.8), layout="constrained")
    panels = {"features, millions": ("features", 1e6), "memory, MB": ("memory_bytes", 2**20), "AUC of windows": ("auc", 1)}
    for axis, (title, (name, unit)) in zip(axes, panels.items(), strict=True):
        for (label, reported), color in zip(curves.items(), ("#8a8f98", "#1f6feb"), strict=True):
            values = np.array([window[name] / unit for window in reported])
            if name == "auc":  # a window has 10,240 examples: the mean of ten shows the course
                values = np.convolve(values, np.ones(10) / 10, "valid")
            axis.plot(np.linspace(0, rows / 1e6, len(values)), values, label=label, color=color)
        axis.set(title=title, xlabel="examples, millions")
        axis.grid(alpha=0.3)
        axis.set_ylim(*((0.5, 0.7) if name == "auc" else (0, None)))
    axes[0].legend(frameon=False)
    figure.savefig(file, facecolor="white", metadata={"Date": None})


def main() -> None:
    """Print a line for each of ten points of the stream."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.stream", description=__doc__, formatter_class=raw)
    parser.add_argument("--rows", type=int, default=2_000_000, help="examples; a multiple of 100,000")
    parser.add_argument("--plot", help="a file to draw the whole course into, as SVG")
    given = parser.parse_args()
    rows = given.rows
    with tempfile.TemporaryDirectory(prefix="xpsql-stream-") as name:
        folder = Path(name)
        data = folder / "stream.parquet"
        first = next(parts(PART_ROWS))
        with pq.ParquetWriter(data, first.schema) as writer:
            for part in parts(rows):
                writer.write_table(part, row_group_size=rows)
        plain, living = windows(data, folder / "plain", ""), windows(data, folder / "living", LIFE)
    print(f"{'stream':>8} | {'rows':>10} {'MB':>6} {'AUC':>7} | {'rows':>10} {'MB':>6} {'AUC':>7}  with {LIFE}")
    for point in range(1, POINTS + 1):
        at = len(plain) * point // POINTS - 1
        texts = [f"{w['features']:>10,} {w['memory_bytes'] / 2**20:>6.1f} {w['auc']:>7.4f}" for w in (plain[at], living[at])]
        print(f"{point / POINTS:>8.0%} | {' | '.join(texts)}", flush=True)
    if given.plot:
        plot(given.plot, {"plain": plain, "admit and expire": living}, rows)


if __name__ == "__main__":
    main()
