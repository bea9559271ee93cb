"""SLRM and XSVD on what people bought and watched, beside popularity, item-kNN, EASE, ALS and BPR, each tuned alike.

    python -m benchmarks.recommendation FOLDER LOG [--kept FILE] [METHOD ...]

FOLDER has the logs, LOG is one of them: groceries or games (Amazon), videos (KuaiRand). The last item of each user is left out
and looked for among all items but those that the user has. Of each method the settings below are tried where the last but one
item is looked for and the last one is nowhere; those with the best recall, and the first ones, the defaults of ours, then learn
all but the last item. implicit is of the extra `bench`. Each trial is a line of FILE, from which a run that ended goes on.
"""

from __future__ import annotations

import argparse
import csv as texts
import gzip
import itertools
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

from xpsql import Session, connect
from xpsql.algorithms.augments.pairs import shares
from xpsql.platform.progress import SilentReporter

K = 20
BLOCK = 2048  # users whose items are ranked at once
Scores = NDArray[np.float32]


class Users(NamedTuple):
    """What users took, by number of the item: a matrix of all but the last, and the last; and what the numbers stand for."""

    seen: sparse.csr_matrix
    last: NDArray[np.int64]
    histories: list[list[int]]
    items: list[str]


def groceries(folder: Path) -> list[tuple[str, str]]:
    """Return what was bought, user and item, in order of time."""
    rows = lines_of(folder / "amazon_grocery_rechorus" / "train.csv.gz", "time")
    return [(row["user_id"], row["item_id"]) for row in rows]


def videos(folder: Path) -> list[tuple[str, str]]:
    """Return which videos were clicked."""
    rows = lines_of(folder / "kuairand_kcore15" / "log_standard_kcore15.tsv.gz", "time_ms")
    return [(row["user_id"], row["video_id"]) for row in rows if row["is_click"] == "1"]


def lines_of(path: Path, at: str) -> list[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        return sorted(texts.DictReader(file, delimiter="\t"), key=lambda row: int(row[at]))


def all_games(folder: Path) -> list[tuple[str, str]]:
    """Return which games were reviewed: of too many for the dense matrices of peers."""
    with gzip.open(folder / "amazon_videogames_sasrec" / "Video.txt.gz", "rt") as file:
        return [(user, item) for user, item in map(str.split, file)]


def games(folder: Path) -> list[tuple[str, str]]:
    """Return which games were reviewed, of those that ten users or more have."""
    rows = all_games(folder)
    count = Counter(item for _, item in rows)
    return [row for row in rows if count[row[1]] >= 10]


LOGS = {"groceries": groceries, "games": games, "all_games": all_games, "videos": videos}


def users(rows: Sequence[tuple[str, str]]) -> Users:
    """Return the users with three items or more."""
    numbers: dict[str, int] = {}
    whole = defaultdict(list)
    for user, item in rows:
        whole[user].append(numbers.setdefault(item, len(numbers)))
    return without_last(list(whole.values()), list(numbers))


def without_last(whole: Sequence[list[int]], items: list[str]) -> Users:
    """Return users of three items or more without the last one, where it is not among the others."""
    whole = [one for one in whole if len(set(one)) > 2 and one[-1] not in one[:-1]]
    histories = [one[:-1] for one in whole]
    rows = np.repeat(np.arange(len(whole)), [len(one) for one in histories])
    columns = np.concatenate([np.array(one) for one in histories])
    seen = sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (len(whole), len(items)))
    seen.data[:] = 1
    return Users(seen, np.array([one[-1] for one in whole]), histories, items)


def quality(known: Users, scores: Scores) -> tuple[float, float]:
    """Return recall@K and NDCG@K of the last items."""
    rank = ranks(known, scores)
    hit = rank < K
    return float(hit.mean()), float((hit / np.log2(rank + 2)).mean())


def ranks(known: Users, scores: Scores) -> NDArray[np.float64]:
    """Return the place of each user's last item among those that the user has not; equal scores count half."""
    found = np.empty(len(known.last))
    for start in range(0, len(found), BLOCK):
        block = slice(start, start + BLOCK)
        some = np.where(known.seen[block].toarray() > 0, -np.inf, scores[block])
        own = some[np.arange(len(some)), known.last[block]][:, None]
        found[block] = (some > own).sum(axis=1) + ((some == own).sum(axis=1) - 1) / 2
    return found


def popularity(known: Users) -> Scores:
    """Return how many users have each item."""
    return np.tile(np.asarray(known.seen.sum(axis=0), np.float32), (known.seen.shape[0], 1))


def knn(known: Users, neighbours: int) -> Scores:
    """Return the scores of item-kNN: cosines of items, of each the nearest, summed over a user's items.

    Source: Deshpande and Karypis, "Item-Based Top-N Recommendation Algorithms", TOIS 2004.
    """
    seen = known.seen
    length = np.sqrt(np.asarray(seen.power(2).sum(axis=0)).ravel())
    unit = seen @ sparse.diags(1 / np.maximum(length, 1e-9))
    cosine = (unit.T @ unit).toarray()
    np.fill_diagonal(cosine, 0)
    cosine[cosine < np.partition(cosine, -neighbours, axis=1)[:, [-neighbours]]] = 0
    return np.asarray(seen @ cosine, np.float32)


def ease(known: Users, penalty: float) -> Scores:
    """Return the scores of EASE: the least squares of each item by all others, with one L2 penalty.

    Source: Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019, equation 8.
    """
    seen = known.seen
    gram = (seen.T @ seen).toarray()
    np.fill_diagonal(gram, gram.diagonal() + penalty)
    inverse = np.linalg.inv(gram)
    weights = -inverse / inverse.diagonal()
    np.fill_diagonal(weights, 0)
    return np.asarray(seen @ weights, np.float32)


def als(known: Users, factors: int, regularization: float, alpha: float) -> Scores:
    """Return the scores of implicit's ALS."""
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(factors, regularization, alpha, iterations=20, random_state=1, num_threads=1)
    return of_factors(model, known)


def bpr(known: Users, factors: int, learning_rate: float, iterations: int, regularization: float) -> Scores:
    """Return the scores of implicit's BPR."""
    from implicit.bpr import BayesianPersonalizedRanking as Bpr

    model = Bpr(factors, learning_rate, regularization, iterations=iterations, random_state=1, num_threads=1)
    return of_factors(model, known)


def of_factors(model: Any, known: Users) -> Scores:
    model.fit(known.seen, show_progress=False)
    return np.asarray(model.user_factors @ model.item_factors.T, np.float32)


class Trial(NamedTuple):
    """What a method learns from: the users, and for ours a session and files of their rows, see `written`."""

    known: Users
    session: Session
    rows: Path
    sequences: Path


def of_users(method: Callable[..., Scores]) -> Callable[..., Scores]:
    return lambda trial, *setting: method(trial.known, *setting)


def slrm(trial: Trial, options: str, passes: int | None) -> Scores:
    """Return the scores of the pairs that ML.RELATED gives."""
    trial.session.sql(
        f"TRAIN OR REPLACE MODEL pairs USING slrm ({options}) WITH (share = (history AS item){times(passes)}) AS "
        f"SELECT 1 AS label, item, history FROM parquet.`{trial.rows}`"
    )
    return of_pairs(trial, "pairs")


def times(passes: int | None) -> str:
    return "" if passes is None else f", passes = {passes}"


def of_pairs(trial: Trial, model: str) -> Scores:
    """Return the scores of all items for each user by a model's pairs."""
    known = trial.known
    items = f"SELECT DISTINCT item FROM parquet.`{trial.rows}`"
    table = trial.session.sql(f"SELECT * FROM ML.RELATED(MODEL {model}, ({items}))").arrow()
    had, taken, score = (table[name].to_numpy() for name in ("item", "related", "score"))
    weights = sparse.csr_matrix((score, (had, taken)), (known.seen.shape[1],) * 2)
    return np.asarray((known.seen @ weights).toarray(), np.float32)


def xsvd(trial: Trial, options: str, passes: int | None) -> Scores:
    """Return the scores of all items for each user, as ML.PREDICT computes them, but for what is the same for all items."""
    known, session = trial.known, trial.session
    session.sql(
        f"TRAIN OR REPLACE MODEL factors USING xsvd (feedback = (history), negatives = 20{options}) "
        f"WITH (share = (history AS item){times(passes)}) AS "
        f"SELECT 1 AS label, user, item, history FROM parquet.`{trial.rows}`"
    )
    weight, vectors = rows_of(trial, "item", known.seen.shape[1])
    _, users = rows_of(trial, "user", known.seen.shape[0])
    number = np.maximum(known.seen.sum(axis=1).A1, 1)
    had = sparse.diags(1 / np.sqrt(number)) @ known.seen @ vectors
    scores = np.asarray(weight + (users + had) @ vectors.T, np.float32)
    return scores + shares(number)[:, None] * of_pairs(trial, "factors") if "slim" in options else scores


def rows_of(trial: Trial, slot: str, number: int) -> tuple[Scores, Scores]:
    """Return the weight and the vector of each value of a slot; zeros where it has none."""
    rows = trial.session.sql(
        f"SELECT v.{slot} AS value, w.`table` AS name, w.weights FROM ML.WEIGHTS(MODEL factors) w "
        f"JOIN (SELECT DISTINCT {slot} FROM parquet.`{trial.rows}`) v "
        f"ON w.key = feature_key('{slot}', CAST(v.{slot} AS STRING))"
    ).arrow()
    found = []
    for name in ("weights", "vectors"):
        own = rows.filter(pc.equal(rows["name"], name))
        values = np.array(own["weights"].to_pylist(), np.float32)
        whole = np.zeros((number, values.shape[1]), np.float32)
        whole[own["value"].to_numpy()] = values
        found.append(whole)
    return found[0][:, 0], found[1]


def word2vec(trial: Trial, options: str, passes: int | None) -> Scores:
    """Return the cosines of items with the mean of a user's."""
    session, seen = trial.session, trial.known.seen
    session.sql(
        f"TRAIN OR REPLACE MODEL near USING word2vec ({options}) WITH (workers = 1{times(passes)}) AS "
        f"SELECT history FROM parquet.`{trial.sequences}`"
    )
    one = pa.table({"history": [[item] for item in range(seen.shape[1])]})
    vectors = np.array(session.model("near").predict(one).arrow()["predicted_vector"].to_pylist(), np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return np.asarray(seen @ vectors @ vectors.T, np.float32)


def written(known: Users, session: Session, folder: Path) -> Trial:
    """Write a row for each item of each user, with the user's others as history, in random order; and the users' sequences."""
    rows = [(user, item, [i for i in one if i != item]) for user, one in enumerate(known.histories) for item in one]
    order = np.random.default_rng(1).permutation(len(rows))
    users, items, histories = zip(*(rows[i] for i in order), strict=True)
    trial = Trial(known, session, folder / "rows.parquet", folder / "sequences.parquet")
    pq.write_table(pa.table({"user": users, "item": items, "history": histories}), trial.rows)
    order = np.random.default_rng(2).permutation(len(known.histories))
    pq.write_table(pa.table({"history": [known.histories[i] for i in order]}), trial.sequences)
    return trial


Setting = tuple[Any, ...]
METHODS: Mapping[str, tuple[Callable[..., Scores], Sequence[Setting]]] = {
    "popularity": (of_users(popularity), [()]),
    "item-kNN": (of_users(knn), [(20,), (50,), (100,), (200,), (500,)]),
    "EASE": (of_users(ease), [(30,), (100,), (300,), (1000,)]),
    "ALS": (
        of_users(als),
        [(64, 0.01, 1), *itertools.product((64, 128), (1, 10, 30), (2, 10, 40)), (256, 10, 10)],
    ),
    "BPR": (
        of_users(bpr),
        [
            (100, 0.01, 100, 0.01),
            *itertools.product((64, 128), (0.05, 0.1, 0.2), (400,), (0.003, 0.01, 0.03)),
            (64, 0.05, 100, 0.01),
        ],
    ),
    "slrm": (slrm, [("", 1), ("alpha = 0.2", 1), ("alpha = 1", 1), ("alpha = 0.2", 3), ("l1 = 0.1", 1), ("l2 = 5", 1)]),
    "xsvd": (
        xsvd,
        [
            ("", None),
            (", dim = 32, vector_alpha = 0.1", 5),
            (", dim = 64, vector_alpha = 0.1", 5),
            (", slim = true, alpha = 0.3, dim = 64, vector_alpha = 0.1", 3),
        ],
    ),
    "word2vec": (
        word2vec,
        [("", None), ("window = 20", 10), ("window = 50", 10), ("window = 50", 30), ("window = 50, negatives = 20", 10)],
    ),
}
"""Each method's settings, the defaults of ours first, whose passes None leaves to the training."""


def scored(name: str, known: Users, setting: Setting) -> tuple[float, float, float]:
    """Return recall and NDCG of what a method finds, and the CPU seconds that it takes."""
    method, _ = METHODS[name]
    with tempfile.TemporaryDirectory() as folder, connect(Path(folder) / "warehouse", reporter=SilentReporter()) as session:
        trial = written(known, session, Path(folder))
        start = time.process_time()
        scores = method(trial, *setting)
        return (*quality(known, scores), time.process_time() - start)


def lines(rows: Sequence[tuple[str, str]], names: Sequence[str], kept: Path | None) -> Iterator[str]:
    """Yield the lines of the table: the first settings of each method, and those that its search finds."""
    known = users(rows)
    shorter = without_last(known.histories, known.items)
    yield f"{len(known.last)} users, {len(np.unique(known.seen.indices))} items, {known.seen.nnz} taken"
    yield "| method | setting | recall@20 | NDCG@20 | CPU seconds |"
    for name in names:
        settings = METHODS[name][1]
        searched = [trial(name, shorter, one, "last but one", kept)[0] if settings[1:] else 0.0 for one in settings]
        best = settings[int(np.argmax(searched))]
        for setting in dict.fromkeys([settings[0], best]):
            recall, ndcg, seconds = trial(name, known, setting, "last", kept)
            chosen = f" (chosen of {len(settings)})" if setting == best else ""
            yield f"| {name} | {', '.join(map(str, setting))}{chosen} | {recall:.4f} | {ndcg:.4f} | {seconds:.0f} |"


def trial(name: str, known: Users, setting: Setting, item: str, kept: Path | None) -> tuple[float, float, float]:
    """Return what `scored` does, from the file where it has this trial; else add a line to it.

    Args:
        item: which one of each user is looked for.
    """
    what = [name, list(setting), item]
    before = [] if kept is None or not kept.exists() else [json.loads(line) for line in kept.read_text().splitlines()]
    if (found := next((one[3:] for one in before if one[:3] == what), None)) is not None:
        return tuple(found)
    found = scored(name, known, setting)
    if kept is not None:
        with kept.open("a") as file:
            print(json.dumps([*what, *found]), file=file)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("log", choices=LOGS)
    parser.add_argument("methods", nargs="*", metavar="METHOD")
    parser.add_argument("--kept", type=Path)
    given = parser.parse_intermixed_args()
    for text in lines(LOGS[given.log](given.folder), given.methods or list(METHODS), given.kept):
        print(text, flush=True)
