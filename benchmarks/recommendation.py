"""SLRM and XSVD on bought groceries, beside popularity, item-kNN, EASE and ALS: recall and NDCG of the last item of each user.

    python -m benchmarks.recommendation FOLDER
    python -m benchmarks.recommendation FOLDER choose

FOLDER has `amazon_grocery_rechorus/train.csv.gz`: user_id, item_id and time, separated by tabs. The last item of each user is
left out and looked for among all items but those that the user has. implicit is of the extra `bench`. The second form prints
the quality of rates and passes of xsvd where the last item but one is left out and looked for, and the last one is nowhere,
by which the statement below was chosen.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

from xpsql import Session, connect
from xpsql.platform.progress import SilentReporter

K, NEIGHBOURS, PENALTY = 20, 100, 100
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
    return without_last(whole, int(item.max()) + 1)


def without_last(whole: list[list[int]], num_items: int) -> Users:
    """Return users of these items without the last one, where it is not among the others."""
    whole = [one for one in whole if one[-1] not in one[:-1]]
    histories = [one[:-1] for one in whole]
    rows = np.repeat(np.arange(len(whole)), [len(one) for one in histories])
    columns = np.concatenate([np.array(one) for one in histories])
    seen = sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (len(whole), num_items))
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


def popularity(known: Users) -> Scores:
    """Return how many users have each item."""
    return np.tile(np.asarray(known.seen.sum(axis=0), np.float32), (known.seen.shape[0], 1))


def ease(known: Users) -> Scores:
    """Return the scores of EASE: the least squares of each item by all others, with one L2 penalty.

    Source: Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019, equation 8.
    """
    gram = (known.seen.T @ known.seen).toarray()
    np.fill_diagonal(gram, gram.diagonal() + PENALTY)
    inverse = np.linalg.inv(gram)
    weights = -inverse / inverse.diagonal()
    np.fill_diagonal(weights, 0)
    return np.asarray(known.seen @ weights, np.float32)


def als(known: Users) -> Scores:
    """Return the scores of implicit's ALS."""
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(factors=64, regularization=0.05, alpha=2, iterations=20, random_state=1, num_threads=1)
    model.fit(known.seen, show_progress=False)
    return np.asarray(model.user_factors @ model.item_factors.T, np.float32)


SLRM = "slrm WITH (share = (history AS item)) AS SELECT 1 AS label, item, history FROM"
XSVD = (
    "xsvd (feedback = (history), negatives = 20, dim = 32, vector_alpha = {}) WITH (share = (history AS item), passes = {}) AS "
    "SELECT 1 AS label, user, item, history FROM"
)
CHOICES, CHOSEN = ((0.05, 5), (0.05, 10), (0.1, 3), (0.1, 5), (0.1, 8), (0.2, 3), (0.2, 5)), (0.1, 5)


def slrm(session: Session, known: Users, path: Path) -> Scores:
    """Return the scores of the pairs that ML.RELATED gives."""
    session.sql(f"TRAIN OR REPLACE MODEL pairs USING {SLRM} parquet.`{path}`")
    items = f"SELECT DISTINCT item FROM parquet.`{path}`"
    table = session.sql(f"SELECT * FROM ML.RELATED(MODEL pairs, ({items}))").arrow()
    had, taken, score = (table[name].to_numpy() for name in ("item", "related", "score"))
    weights = sparse.csr_matrix((score, (had, taken)), (known.seen.shape[1],) * 2)
    return np.asarray((known.seen @ weights).toarray(), np.float32)


def xsvd(session: Session, known: Users, path: Path, chosen: tuple[float, int]) -> Scores:
    """Return the scores of all items for each user, as ML.PREDICT computes them, but for what is the same for all items."""
    session.sql(f"TRAIN OR REPLACE MODEL factors USING {XSVD.format(*chosen)} parquet.`{path}`")
    weight, vectors = rows_of(session, path, "item", known.seen.shape[1])
    _, users = rows_of(session, path, "user", known.seen.shape[0])
    had = sparse.diags(1 / np.sqrt(np.maximum(known.seen.sum(axis=1).A1, 1))) @ known.seen @ vectors
    return np.asarray(weight + (users + had) @ vectors.T, np.float32)


def rows_of(session: Session, path: Path, slot: str, number: int) -> tuple[Scores, Scores]:
    """Return the weight and the vector of each value of a slot; zeros where it has none."""
    rows = session.sql(
        f"SELECT v.{slot} AS value, w.`table` AS name, w.weights FROM ML.WEIGHTS(MODEL factors) w "
        f"JOIN (SELECT DISTINCT {slot} FROM parquet.`{path}`) v ON w.key = feature_key('{slot}', CAST(v.{slot} AS STRING))"
    ).arrow()
    found = []
    for name in ("weights", "vectors"):
        own = rows.filter(pc.equal(rows["name"], name))
        values = np.array(own["weights"].to_pylist(), np.float32)
        whole = np.zeros((number, values.shape[1]), np.float32)
        whole[own["value"].to_numpy()] = values
        found.append(whole)
    return found[0][:, 0], found[1]


def others_as_history(known: Users, folder: Path) -> Path:
    """Write a row for each item of each user, with the user's others as history, in random order."""
    rows = [(user, item, [i for i in one if i != item]) for user, one in enumerate(known.histories) for item in one]
    order = np.random.default_rng(1).permutation(len(rows))
    users, items, histories = zip(*(rows[i] for i in order), strict=True)
    path = folder / "rows.parquet"
    pq.write_table(pa.table({"user": users, "item": items, "history": histories}), path)
    return path


def lines(folder: Path) -> Iterator[str]:
    """Yield the lines of the table."""
    known = users(folder)
    yield f"{len(known.last)} users, {len(np.unique(known.seen.indices))} items, {known.seen.nnz} bought"
    with tempfile.TemporaryDirectory() as name, connect(Path(name) / "warehouse", reporter=SilentReporter()) as session:
        path = others_as_history(known, Path(name))
        work = {"popularity": lambda: popularity(known), "item-kNN": lambda: knn(known), "EASE": lambda: ease(known)}
        work |= {"implicit ALS": lambda: als(known)}
        work |= {"slrm": lambda: slrm(session, known, path), "xsvd": lambda: xsvd(session, known, path, CHOSEN)}
        for what, scores in work.items():
            recall, ndcg = quality(known, scores())
            yield f"| {what} | {recall:.4f} | {ndcg:.4f} |"


def choices(folder: Path) -> Iterator[str]:
    """Yield the quality of each choice of rate and passes, where the last item but one is looked for."""
    every = users(folder)
    known = without_last([one for one in every.histories if len(set(one)) > 2], every.seen.shape[1])
    recall, ndcg = quality(known, knn(known))
    yield f"| item-kNN | | {recall:.4f} | {ndcg:.4f} |"
    with tempfile.TemporaryDirectory() as name, connect(Path(name) / "warehouse", reporter=SilentReporter()) as session:
        path = others_as_history(known, Path(name))
        for chosen in CHOICES:
            recall, ndcg = quality(known, xsvd(session, known, path, chosen))
            yield f"| {chosen[0]} | {chosen[1]} | {recall:.4f} | {ndcg:.4f} |"


if __name__ == "__main__":
    folder, *rest = sys.argv[1:]
    for text in choices(Path(folder)) if rest == ["choose"] else lines(Path(folder)):
        print(text, flush=True)
