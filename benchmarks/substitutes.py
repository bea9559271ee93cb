"""Whether vectors of items tell substitutes: python -m benchmarks.substitutes FOLDER.

FOLDER has `amazon_grocery_rechorus/{train,item_meta}.csv.gz`: what users bought, in order of time, and for each item those that
the shop named as its substitutes. Vectors are learned from what users bought alone. The AUC says how often an item is more
similar to one of its substitutes than to an item drawn at random, by the cosine of their vectors; items that nobody bought are
left out.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

import xpsql
from benchmarks.auc import auc
from xpsql.platform.progress import SilentReporter

ALGORITHMS = {
    "word2vec (dim = 64)": ("items", "SELECT items FROM log"),
    "word2vec (dim = 64, window = 20)": ("items", "SELECT items FROM log"),
    "xsvd (feedback = (others), negatives = 20, dim = 32, vector_alpha = 0.1)": (
        "item",
        "SELECT user, item, filter(items, other -> other <> item) AS others, 1 AS label "
        "FROM (SELECT user, items, explode(items) AS item FROM log)",
    ),
}
Vectors = dict[str, NDArray[np.float32]]


def tables(folder: Path) -> tuple[pa.Table, list[tuple[str, list[str]]]]:
    """Return what each user bought, and the substitutes of each item."""
    tabs = csv.ParseOptions(delimiter="\t")
    log = csv.read_csv(folder / "amazon_grocery_rechorus" / "train.csv.gz", parse_options=tabs).sort_by("time")
    bought: dict[str, list[str]] = {}
    for user, item in zip(log["user_id"].to_pylist(), log["item_id"].to_pylist(), strict=True):
        bought.setdefault(str(user), []).append(str(item))
    meta = csv.read_csv(folder / "amazon_grocery_rechorus" / "item_meta.csv.gz", parse_options=tabs)
    named = zip(meta["item_id"].to_pylist(), meta["r_substitute"].to_pylist(), strict=True)
    return pa.table({"user": list(bought), "items": list(bought.values())}), [
        (str(item), others.strip("[]").replace(" ", "").split(",")) for item, others in named if others.strip("[]")
    ]


def vectors(session: xpsql.Session, using: str, slot: str, query: str) -> Vectors:
    """Learn five passes, and return the vectors of items by name, of length 1."""
    labels = "LABEL label " if using.startswith("xsvd") else ""
    shared = ", share = (others AS item)" if using.startswith("xsvd") else ""
    session.sql(f"TRAIN OR REPLACE MODEL m USING {using} {labels}WITH (passes = 5, workers = 1{shared}) AS {query}")
    rows = session.sql(
        "SELECT n.name, w.weights FROM ML.WEIGHTS(MODEL m) w "
        f"JOIN (SELECT DISTINCT explode(items) AS name FROM log) n ON w.key = feature_key('{slot}', n.name) "
        "WHERE w.`table` = 'vectors'"
    ).arrow()
    found = np.array(rows["weights"].to_pylist(), np.float32)
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
    return dict(zip(rows["name"].to_pylist(), found, strict=True))


def told(found: Vectors, pairs: list[tuple[str, list[str]]]) -> tuple[float, int]:
    """Return the AUC, and how many pairs of substitutes there are."""
    random, names = np.random.default_rng(0), sorted(found)
    true = [(item, other) for item, others in pairs for other in others if item in found and other in found]
    drawn = [(item, names[place]) for (item, _), place in zip(true, random.integers(0, len(names), len(true)), strict=True)]
    scores = np.array([found[one] @ found[other] for one, other in (*true, *drawn)], np.float64)
    return auc(np.arange(len(scores)) < len(true), scores), len(true)


def main(folder: Path) -> None:
    log, pairs = tables(folder)
    with tempfile.TemporaryDirectory() as temporary, xpsql.connect(temporary, reporter=SilentReporter()) as session:
        pq.write_table(log, path := Path(temporary) / "log.parquet")
        session.sql(f"CREATE VIEW log AS SELECT * FROM parquet.`{path}`")
        for using, (slot, query) in ALGORITHMS.items():
            score, count = told(vectors(session, using, slot, query), pairs)
            print(f"{score:.4f} {using}, {count} pairs", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
