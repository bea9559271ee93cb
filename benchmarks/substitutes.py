"""Whether vectors of items tell substitutes: python -m benchmarks.substitutes FOLDER.

FOLDER has `amazon_grocery_rechorus/{train,item_meta}.csv.gz`: what users bought, in order of time, and for each item those that
the shop named as its substitutes and, apart from these, as its complements. The AUC says how often the angle between an item
and one of its substitutes is smaller than that to an item drawn at random; items that nobody bought are left out. Nothing is
learned from the substitutes. An item is its own vector, or the set of its complements: the mean of their vectors, as ML.PREDICT
of `word2vec` gives it. Cosines of counts, without vectors, stand beside both.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import scipy.sparse as sparse
from numpy.typing import NDArray

import xpsql
from benchmarks.auc import auc
from xpsql.platform.progress import SilentReporter

OTHERS = (
    "SELECT user, item, filter(items, other -> other <> item) AS others, 1 AS label "
    "FROM (SELECT user, items, explode(items) AS item FROM bought)"
)
ITEMS = {
    "word2vec (window = 5)": ("items", 5, "AS SELECT items FROM bought"),
    "word2vec (window = 20)": ("items", 5, "AS SELECT items FROM bought"),
    "word2vec (window = 50, negatives = 20)": ("items", 10, "AS SELECT items FROM bought"),
    "xsvd (feedback = (others), negatives = 20, dim = 32, vector_alpha = 0.1) LABEL label": ("item", 5, f"AS {OTHERS}"),
}
"""What is learned: the slot of items, passes and the query."""
SETS = {
    "of complements": "AS SELECT items FROM beside",
    "of purchases": "AS SELECT items FROM bought",
}


def named(column: pa.ChunkedArray) -> list[list[str]]:
    """Return the items of each list that is written as a text."""
    return [text.strip("[]").replace(" ", "").split(",") if text.strip("[]") else [] for text in column.to_pylist()]


def tables(folder: Path) -> tuple[dict[str, list[str]], dict[str, list[str]], list[tuple[str, str]]]:
    """Return what each user bought, and of the items that were bought the complements, and pairs of substitutes."""
    tabs = csv.ParseOptions(delimiter="\t")
    log = csv.read_csv(folder / "amazon_grocery_rechorus" / "train.csv.gz", parse_options=tabs).sort_by("time")
    bought: dict[str, list[str]] = {}
    for user, item in zip(log["user_id"].to_pylist(), log["item_id"].to_pylist(), strict=True):
        bought.setdefault(str(user), []).append(str(item))
    there = {item for items in bought.values() for item in items}
    meta = csv.read_csv(folder / "amazon_grocery_rechorus" / "item_meta.csv.gz", parse_options=tabs)
    names = [str(item) for item in meta["item_id"].to_pylist()]
    beside = {name: [one for one in own if one in there] for name, own in zip(names, named(meta["r_complement"]), strict=True)}
    substitutes = zip(names, named(meta["r_substitute"]), strict=True)
    pairs = [(name, other) for name, own in substitutes for other in own if {name, other} <= there]
    return bought, {name: own for name, own in beside.items() if own and name in there}, pairs


class Judge:
    """Tells substitutes by the cosine of what stands for items.

    Args:
        names: the items.
        pairs: of substitutes.
    """

    def __init__(self, names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> None:
        self._place = {name: place for place, name in enumerate(names)}
        self._first, self._other = (np.array([self._place[pair[at]] for pair in pairs]) for at in (0, 1))
        self._drawn = np.random.default_rng(0).integers(0, len(names), len(pairs))

    def of_vectors(self, names: Sequence[str], vectors: NDArray[np.float32]) -> float:
        """Return the AUC; an item without a vector is at a right angle to all."""
        return self._told(sparse.csr_matrix(self._in_order(names) @ vectors))

    def of_counts(self, names: Sequence[str], sets: Sequence[Sequence[str]]) -> float:
        """Return the AUC of sets of any words, one for each name; a name may have several."""
        words = {word: at for at, word in enumerate(sorted({word for own in sets for word in own}))}
        ends = np.cumsum([0, *(len(own) for own in sets)])
        column = np.array([words[word] for own in sets for word in own])
        cells = sparse.csr_matrix((np.ones(len(column)), column, ends), (len(sets), len(words)))
        return self._told(self._in_order(names) @ cells)

    def _in_order(self, names: Sequence[str]) -> sparse.csr_matrix:
        rows = [self._place[name] for name in names]
        return sparse.csr_matrix((np.ones(len(rows)), (rows, np.arange(len(rows)))), (len(self._place), len(rows)))

    def _told(self, rows: sparse.csr_matrix) -> float:
        length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        unit = sparse.diags(1 / np.maximum(length, 1e-9)) @ rows
        scores = [np.asarray(unit[self._first].multiply(unit[of]).sum(axis=1)).ravel() for of in (self._other, self._drawn)]
        return auc(np.arange(2 * len(self._first)) < len(self._first), np.concatenate(scores))


def lines(folder: Path) -> Iterator[str]:
    """Yield what is printed."""
    bought, beside, pairs = tables(folder)
    names = sorted({item for items in bought.values() for item in items})
    judge = Judge(names, pairs)
    yield f"{len(pairs)} pairs of substitutes among {len(names)} items, of which {len(beside)} have complements"
    users = [(item, user) for user, items in bought.items() for item in items]
    yield f"{judge.of_counts(*zip(*((item, [user]) for item, user in users), strict=True)):.4f} items, counts of users"
    yield f"{judge.of_counts(list(beside), list(beside.values())):.4f} complements, counts"
    with tempfile.TemporaryDirectory() as temporary, xpsql.connect(temporary, reporter=SilentReporter()) as session:
        for name, sets, key in (("bought", bought, "user"), ("beside", beside, "item")):
            table = pa.table({key: list(sets), "items": list(sets.values())})
            pq.write_table(table, path := Path(temporary) / f"{name}.parquet")
            session.sql(f"CREATE VIEW {name} AS SELECT * FROM parquet.`{path}`")
        for using, (slot, passes, query) in ITEMS.items():
            shared = ", share = (others AS item)" if slot == "item" else ""
            session.sql(f"TRAIN OR REPLACE MODEL m USING {using} WITH (passes = {passes}, workers = 1{shared}) {query}")
            rows = session.sql(
                "SELECT n.name, w.weights FROM ML.WEIGHTS(MODEL m) w "
                f"JOIN (SELECT DISTINCT explode(items) AS name FROM bought) n ON w.key = feature_key('{slot}', n.name) "
                "WHERE w.`table` = 'vectors'"
            ).arrow()
            found = judge.of_vectors(rows["name"].to_pylist(), np.array(rows["weights"].to_pylist(), np.float32))
            yield f"{found:.4f} items, {using}, {passes} passes"
        for what, query in SETS.items():
            session.sql(f"TRAIN OR REPLACE MODEL m USING word2vec (window = 20) WITH (passes = 5, workers = 1) {query}")
            rows = session.sql("SELECT item, predicted_vector FROM ML.PREDICT(MODEL m, TABLE beside)").arrow()
            found = judge.of_vectors(rows["item"].to_pylist(), np.array(rows["predicted_vector"].to_pylist(), np.float32))
            yield f"{found:.4f} complements, the mean of vectors {what}, word2vec (window = 20), 5 passes"


if __name__ == "__main__":
    for line in lines(Path(sys.argv[1])):
        print(line, flush=True)
