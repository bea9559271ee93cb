"""Words a second of word2vec and of gensim's skip-gram, on made sequences, in one process on the cores that it may use.

    python -m benchmarks.words FOLDER SEQUENCES ROUNDS

Sequences have ten words of 20,000, drawn by Zipf's law. Prints a line for each figure: value, unit, name. gensim is of the
extra `bench`; its vocabulary is built while the clock runs, as our trainings read and write while it does. CPU seconds count,
as the machine may be shared.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import xpsql
from xpsql.platform.progress import SilentReporter

WORDS, LENGTH, DIM = 20_000, 10, 100


def sequences(number: int) -> list[list[str]]:
    """Return made sequences."""
    rank = np.random.default_rng(1).zipf(1.2, (number, LENGTH)) % WORDS
    return [[f"w{word}" for word in line] for line in rank.tolist()]


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def theirs(made: list[list[str]]) -> None:
    """Learn with gensim: one pass, its defaults but for the words that are kept, which are all."""
    from gensim.models import Word2Vec

    Word2Vec(made, vector_size=DIM, sg=1, epochs=1, min_count=1, workers=1)


def lines(folder: Path, number: int, rounds: int) -> Iterator[str]:
    """Yield a line for each figure."""
    made, path = sequences(number), folder / "sequences.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"words": made}), path)
    statement = f"TRAIN OR REPLACE MODEL m USING word2vec (dim = {DIM}) WITH (passes = 1) AS SELECT words FROM parquet.`{path}`"
    with xpsql.connect(folder / "warehouse", "duckdb", SilentReporter()) as session:
        session.sql(statement)  # not counted: compiles
        seen = [(cpu_seconds(lambda: session.sql(statement)), cpu_seconds(lambda: theirs(made))) for _ in range(rounds)]
    ours, gensim = (number * LENGTH / statistics.median(pair[i] for pair in seen) for i in (0, 1))
    yield f"{ours:.0f} words/s word2vec, CPU"
    yield f"{gensim:.0f} words/s gensim, CPU"
    yield f"{statistics.median(b / a for a, b in seen):.3f} x word2vec, times gensim"


if __name__ == "__main__":
    for text in lines(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])):
        print(text, flush=True)
