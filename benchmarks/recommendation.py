"""SLRM on bought groceries, beside item-kNN and implicit's ALS: recall and NDCG of the last item of each user.

    python -m benchmarks.recommendation FOLDER

FOLDER has `amazon_grocery_rechorus/train.csv.gz`: user_id, item_id and time, separated by tabs. The last item of each user is
left out and looked for among all items but those that the user has. implicit is of the extra `bench`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

from xpsql import Session, connect
from xpsql.platform.progress import SilentReporter

K, NEIGHBOURS = 20, 100
Scores = NDArray[np.float32]


class Users(NamedTuple):
    """What users bought, by number of the item: a matrix of all but the last, and the last."""

    seen: sparse.csr_matrix
    last: NDArray[np.int64]
    histories: list[list[int]]


def users(folder: Path) -> Users:
    """Return the users with three items or more."""
    table = csv.read_csv(folder / "amazon_grocery_rechorus" / "train.csv.gz", parse_options=csv.ParseOptions(delimiter="\t"))
    table = table.sort_by([("user_id", "ascending"), ("time", "ascending")])
    user, item = table["user_id"].to_numpy(), table["item_id"].to_numpy()
    starts = np.flatnonzero(np.r_[True, user[1:] != user[:-1]])
    whole = [one.tolist() for one in np.split(item, starts[1:]) if len(set(one.tolist())) > 2]
    whole = [one for one in whole if one[-1] not in one[:-1]]
    histories = [one[:-1] for one in whole]
    rows = np.repeat(np.arange(len(whole)), [len(one) for one in histories])
    columns = np.concatenate([np.array(one) for one in histories])
    seen = sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (len(whole), int(item.max()) + 1))
    seen.data[:] = 1
    return Users(seen, np.array([one[-1] for one in whole]), histories)


def quality(known: Users, scores: Scores) -> tuple[float, float]:
    """Return recall@K and NDCG@K of the last items."""
    scores = np.where(known.seen.toarray() > 0, -np.inf, scores)
    own = scores[np.arange(len(known.last)), known.last]
    rank = (scores > own[:, None]).sum(axis=1) + ((scores == own[:, None]).sum(axis=1) - 1) / 2  # ties count half
    hit = rank < K
    return float(hit.mean()), float((hit / np.log2(rank + 2)).mean())


def knn(known: Users) -> Scores:
    """Return the scores of item-kNN: cosines of items, of each the nearest NEIGHBOURS, summed over a user's items.

    Source: Deshpande and Karypis, "Item-Based Top-N Recommendation Algorithms", TOIS 2004.
    """
    length = np.sqrt(np.asarray(known.seen.power(2).sum(axis=0)).ravel())
    unit = known.seen @ sparse.diags(1 / np.maximum(length, 1e-9))
    cosine = (unit.T @ unit).toarray()
    np.fill_diagonal(cosine, 0)
    cosine[cosine < np.partition(cosine, -NEIGHBOURS, axis=1)[:, [-NEIGHBOURS]]] = 0
    return np.asarray(known.seen @ cosine, np.float32)


def als(known: Users) -> Scores:
    """Return the scores of implicit's ALS."""
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(factors=64, regularization=0.05, alpha=2, iterations=20, random_state=1, num_threads=1)
    model.fit(known.seen, show_progress=False)
    return np.asarray(model.user_factors @ model.item_factors.T, np.float32)


def slrm(known: Users, session: Session, folder: Path) -> Scores:
    """Return the scores of the pairs that ML.RELATED gives."""
    path = others_as_history(known, folder)
    session.sql(f"TRAIN OR REPLACE MODEL pairs USING slrm AS SELECT 1 AS label, * FROM parquet.`{path}`")
    items = f"SELECT DISTINCT item FROM parquet.`{path}`"
    table = session.sql(f"SELECT * FROM ML.RELATED(MODEL pairs, ({items}))").arrow()
    had, taken, score = (table[name].to_numpy() for name in ("item", "related", "score"))
    weights = sparse.csr_matrix((score, (had, taken)), (known.seen.shape[1],) * 2)
    return np.asarray((known.seen @ weights).toarray(), np.float32)


def others_as_history(known: Users, folder: Path) -> Path:
    """Write a row for each item of each user, with the user's others as history, in random order."""
    rows = [(item, [other for other in one if other != item]) for one in known.histories for item in one]
    order = np.random.default_rng(1).permutation(len(rows))
    items, histories = zip(*(rows[i] for i in order), strict=True)
    path = folder / "rows.parquet"
    pq.write_table(pa.table({"item": items, "history": histories}), path)
    return path


def lines(folder: Path) -> Iterator[str]:
    """Yield the lines of the table."""
    known = users(folder)
    yield f"{len(known.last)} users, {len(np.unique(known.seen.indices))} items, {known.seen.nnz} bought"
    with tempfile.TemporaryDirectory() as name, connect(Path(name) / "warehouse", reporter=SilentReporter()) as session:
        work = {"item-kNN": lambda: knn(known), "implicit ALS": lambda: als(known)}
        work["slrm"] = lambda: slrm(known, session, Path(name))
        for what, scores in work.items():
            recall, ndcg = quality(known, scores())
            yield f"| {what} | {recall:.4f} | {ndcg:.4f} |"


if __name__ == "__main__":
    for text in lines(Path(sys.argv[1])):
        print(text, flush=True)
