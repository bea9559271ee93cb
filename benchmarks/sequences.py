"""Word2Vec on sequences of bought items, beside gensim's: recall of the next item, and words a second on one core.

    python -m benchmarks.sequences FOLDER [ROUNDS]
    python -m benchmarks.sequences FOLDER choose

FOLDER has `amazon_videogames_sasrec/Video.txt.gz`: lines of a user and an item, in order of time (Kang and McAuley,
"Self-Attentive Sequential Recommendation", ICDM 2018). The last item of each user is left out; it is looked for among the items
nearest to the mean vector of the user's last items. gensim, from the extra `bench`, learns with the same dimensions, window,
negatives and passes; its words are counted as ours: all words of the sequences, times passes.

The second form prints the recall of learning rates and batch sizes where the last item but one is left out and looked for, and
the last one is in no sequence: what the defaults of `word2vec` were chosen by.
"""

from __future__ import annotations

import gzip
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.process import cores
from xpsql import connect
from xpsql.platform.progress import SilentReporter

DIM, WINDOW, NEGATIVES, LAST, K = 64, 5, 5, 3, 20
PASSES = (5,)
RATES, BATCHES = (0.2, 0.5, 1.0, 2.0), (256, 1024)
Vectors = NDArray[np.float32]


class Users(NamedTuple):
    """What users bought: all but the last item, and that one."""

    seen: list[list[str]]
    last: list[str]


def users(folder: Path) -> Users:
    """Return the sequences of users with three items or more."""
    items: dict[str, list[str]] = {}
    with gzip.open(folder / "amazon_videogames_sasrec" / "Video.txt.gz", "rt") as file:
        for line in file:
            user, item = line.split()
            items.setdefault(user, []).append(item)
    whole = [one for one in items.values() if len(one) > 2]
    return Users([one[:-1] for one in whole], [one[-1] for one in whole])


def without_last(known: Users) -> Users:
    """Return the users who have two items or more beside their last one, without it: to choose on."""
    return Users([one[:-1] for one in known.seen if len(one) > 2], [one[-1] for one in known.seen if len(one) > 2])


def recall(known: Users, names: list[str], vectors: Vectors) -> float:
    """Return the share of users whose next item is among the K nearest to what they bought last, that left out."""
    place = {name: i for i, name in enumerate(names)}
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    hits = 0
    for first in range(0, len(known.seen), 1000):
        seen = [[place[i] for i in one if i in place] for one in known.seen[first : first + 1000]]
        means = np.stack([vectors[one[-LAST:]].mean(axis=0) if one else np.zeros(DIM) for one in seen])
        scores = means @ vectors.T
        for line, one in zip(scores, seen, strict=True):
            line[one] = -np.inf
        best = np.argpartition(-scores, K, axis=1)[:, :K]
        wanted = [place.get(item, -1) for item in known.last[first : first + 1000]]
        hits += int((best == np.array(wanted)[:, None]).any(axis=1).sum())
    return hits / len(known.last)


def ours(known: Users, passes: int, folder: Path, options: str = "", settings: str = "") -> tuple[float, float]:
    """Return recall, and seconds of the training statement.

    Args:
        options, settings: beside those that gensim has too.
    """
    path = folder / "sequences.parquet"
    pq.write_table(pa.table({"items": known.seen}), path)
    with connect(folder / "warehouse", reporter=SilentReporter()) as session:
        start = time.perf_counter()
        session.sql(
            f"TRAIN OR REPLACE MODEL m USING word2vec (dim = {DIM}, window = {WINDOW}, negatives = {NEGATIVES}{options}) "
            f"WITH (passes = {passes}{settings}) AS SELECT items FROM parquet.`{path}`"
        )
        seconds = time.perf_counter() - start
        names = sorted({item for one in known.seen for item in one})
        session.engine.register("names", [written(names, folder)])
        rows = session.sql(
            "SELECT n.name, w.weights FROM ML.WEIGHTS(MODEL m) w JOIN names n ON w.key = feature_key('items', n.name) "
            "WHERE w.`table` = 'vectors'"
        ).arrow()
    return recall(known, rows["name"].to_pylist(), np.array(rows["weights"].to_pylist(), np.float32)), seconds


def written(names: list[str], folder: Path) -> Path:
    pq.write_table(pa.table({"name": names}), folder / "names.parquet")
    return folder / "names.parquet"


def theirs(known: Users, passes: int) -> tuple[float, float]:
    """Return gensim's recall, and seconds of building the vocabulary and learning."""
    from gensim.models import Word2Vec

    start = time.perf_counter()
    model = Word2Vec(
        known.seen, vector_size=DIM, window=WINDOW, negative=NEGATIVES, sg=1, epochs=passes, min_count=1, workers=1, seed=1
    )
    seconds = time.perf_counter() - start
    return recall(known, list(model.wv.index_to_key), model.wv.vectors), seconds


def lines(folder: Path, rounds: int) -> Iterator[str]:
    """Yield a line for each figure: value, unit, name."""
    known = users(folder)
    words = sum(map(len, known.seen))
    with tempfile.TemporaryDirectory() as temporary, cores(1):
        ours(known, 1, Path(temporary))  # not counted: compiles what later trainings find
        for passes in PASSES:
            found = [(ours(known, passes, Path(temporary)), theirs(known, passes)) for _ in range(rounds)]
            for who, number in (("xpsql", 0), ("gensim", 1)):
                speed = passes * words / statistics.median(pair[number][1] for pair in found)
                yield f"{statistics.median(pair[number][0] for pair in found):.4f} - {who}, {passes} passes: recall@{K}"
                yield f"{speed:.0f} words/s {who}, {passes} passes"


def choices(folder: Path) -> Iterator[str]:
    """Yield the recall of each learning rate and batch size, where the last item but one is looked for."""
    known = without_last(users(folder))
    with tempfile.TemporaryDirectory() as temporary:
        for rate in RATES:
            for size in BATCHES:
                found, _ = ours(
                    known, PASSES[0], Path(temporary), f", learning_rate = {rate}", f", batch_size = {size}, workers = 1"
                )
                yield f"| {rate} | {size} | {found:.4f} |"


if __name__ == "__main__":
    folder, *rest = sys.argv[1:]
    for text in choices(Path(folder)) if rest == ["choose"] else lines(Path(folder), int(rest[0]) if rest else 1):
        print(text, flush=True)
