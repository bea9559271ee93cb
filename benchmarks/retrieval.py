"""Retrieval and recommendation: the last item of each user among all items that the user does not have, beside other methods.

A row to learn from is an item of a user with the user's items before it (two_tower, tdm) or all others (slrm, xsvd) as history.
Without a folder of published logs rows are made.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import Figure, Run
from benchmarks.process import connect, figures_of, installed
from benchmarks.published import TAKEN

KS = (20, 50)
TARGETS: dict[str, str] = {}
TOWERS = "two_tower (query = (history), item = (item){}) WITH (passes = 5, @)"
TREE = "tdm (item = (item), history = (history), beam = 60, tree = 'vectors') WITH (passes = 5, @)"
FACTORS = "xsvd (feedback = (history), negatives = 20{}) WITH (@{})"
SLIM = ", slim = true, alpha = 0.3, dim = 64, vector_alpha = 0.1"
MODELS = {
    "two_tower": ("before", TOWERS.format("")),
    "two_tower (negatives = 500)": ("before", TOWERS.format(", negatives = 500")),
    "two_tower (correction = 'none')": ("before", TOWERS.format(", correction = 'none'")),
    "tdm (tree = 'vectors')": ("before", TREE),
    "slrm": ("others", "slrm WITH (@)"),
    "xsvd": ("others", FACTORS.format("", "")),
    "xsvd (slim = true)": (
        "others",
        FACTORS.format(", slim = true, alpha = 0.3, dim = 64, vector_alpha = 0.1", ", passes = 3"),
    ),
}


class Users(NamedTuple):
    """Items by number: the histories of users, and the last item of each."""

    histories: list[list[int]]
    last: NDArray[np.int64]
    items: int

    def seen(self) -> Any:
        from scipy import sparse

        rows = np.repeat(np.arange(len(self.last)), [len(one) for one in self.histories])
        shape = len(self.last), self.items
        found = sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, np.concatenate(self.histories))), shape)
        found.data[:] = 1
        return found


def figures(run: Run) -> Iterator[Figure]:
    for log in ("made",) if run.data is None else TAKEN:
        own = run.folder / log
        own.mkdir()
        known = users_of(made(1_000) if run.data is None else TAKEN[log](run.data))
        write_rows(known, own)
        yield Figure(f"{log}: users", len(known.last), "")
        yield Figure(f"{log}: items", known.items, "")
        for name in PEERS:
            if name not in ("ALS", "BPR") or installed("implicit"):
                yield from figures_of(of_peer, log, name, run.data, run.size(2, 20))
        for name in list(MODELS)[::3] if run.quick else MODELS:
            yield from figures_of(learned, log, name, own)


def made(count: int) -> list[tuple[str, str]]:
    """Return what made users took, most of it of one of ten kinds."""
    random = np.random.default_rng(1)
    taken = (random.zipf(1.3, (count, 8)) % 30) * 10 + np.where(
        random.random((count, 8)) < 0.8, np.arange(count)[:, None] % 10, 3
    )
    return [(str(user), str(item)) for user, own in enumerate(taken) for item in own]


def users_of(rows: list[tuple[str, str]]) -> Users:
    """Return the users of three items or more, of which the last is not among the others."""
    numbers: dict[str, int] = {}
    whole = defaultdict(list)
    for user, item in rows:
        whole[user].append(numbers.setdefault(item, len(numbers)))
    kept = [one for one in whole.values() if len(set(one)) > 2 and one[-1] not in one[:-1]]
    return Users([one[:-1] for one in kept], np.array([one[-1] for one in kept]), len(numbers))


def write_rows(known: Users, folder: Path) -> None:
    """Write the rows to learn from in random order, the last items, and the items."""
    before = [(user, item, one[:n]) for user, one in enumerate(known.histories) for n, item in enumerate(one) if n]
    others = [(user, item, [i for i in one if i != item]) for user, one in enumerate(known.histories) for item in one]
    last = list(zip(range(len(known.last)), known.last.tolist(), known.histories, strict=True))
    for name, rows in {"before": before, "others": others, "last": last}.items():
        order = np.random.default_rng(1).permutation(len(rows))
        columns = zip(*(rows[place] for place in order), strict=True)
        table = pa.table({key: pa.array(list(own)) for key, own in zip(("user", "item", "history"), columns, strict=True)})
        pq.write_table(table.append_column("label", pa.array(np.ones(len(table), np.int8))), folder / f"{name}.parquet")
    pq.write_table(pa.table({"item": np.unique(np.concatenate(known.histories))}), folder / "items.parquet")


def learned(log: str, name: str, folder: str) -> Iterator[Figure]:
    """Train a model and yield what it finds, and the CPU seconds of its training."""
    kind, using = MODELS[name]
    rows, last, items = (f"(SELECT * FROM parquet.`{folder}/{part}.parquet`)" for part in (kind, "last", "items"))
    using = using.replace("@", "share = (history AS item), workers = 1")
    if kind == "before":
        using = using.replace(" WITH ", f" ITEMS {items} WITH ")
    columns = (
        "history, item" if kind == "before" else "label, history, item" if name == "slrm" else "label, user, item, history"
    )
    with connect(Path(folder) / "warehouse") as session:
        start = time.process_time()
        session.sql(f"TRAIN OR REPLACE MODEL m USING {using} AS SELECT {columns} FROM {rows}")
        spent = time.process_time() - start
        call = f"MODEL m, {last}, ITEMS {items}, {KS}, EXCLUDE history"
        recalls = session.sql(f"SELECT recall FROM ML.EVALUATE({call})").arrow()["recall"].to_pylist()
    yield from (Figure(f"{log}, {name}: recall@{k}", recall, "") for k, recall in zip(KS, recalls, strict=True))
    yield Figure(f"{log}, {name}: CPU", spent, "s")


def popularity(seen: Any, _: int) -> Any:
    return np.tile(np.asarray(seen.sum(axis=0), np.float32), (seen.shape[0], 1))


def knn(seen: Any, _: int) -> Any:
    """Score by item-kNN, 100 neighbours. Source: Deshpande and Karypis, TOIS 2004."""
    from scipy import sparse

    unit = seen @ sparse.diags(1 / np.maximum(np.sqrt(np.asarray(seen.power(2).sum(axis=0)).ravel()), 1e-9))
    cosine = (unit.T @ unit).toarray()
    np.fill_diagonal(cosine, 0)
    nearest = min(100, len(cosine) - 1)
    cosine[cosine < np.partition(cosine, -nearest, axis=1)[:, [-nearest]]] = 0
    return seen @ cosine


def ease(seen: Any, _: int) -> Any:
    """Score by EASE, penalty 100. Source: Steck, WWW 2019, equation 8."""
    gram = (seen.T @ seen).toarray()
    np.fill_diagonal(gram, gram.diagonal() + 100)
    inverse = np.linalg.inv(gram)
    weights = -inverse / inverse.diagonal()
    np.fill_diagonal(weights, 0)
    return seen @ weights


def als(seen: Any, iterations: int) -> Any:
    from implicit.als import AlternatingLeastSquares

    return of_factors(AlternatingLeastSquares(128, 30, 40, iterations=iterations, random_state=1, num_threads=1), seen)


def bpr(seen: Any, iterations: int) -> Any:
    from implicit.bpr import BayesianPersonalizedRanking as Bpr

    return of_factors(Bpr(128, 0.05, 0.01, iterations=20 * iterations, random_state=1, num_threads=1), seen)


def of_factors(model: Any, seen: Any) -> Any:
    model.fit(seen, show_progress=False)
    return model.user_factors @ model.item_factors.T


PEERS: dict[str, Callable[[Any, int], Any]] = {"popularity": popularity, "item-kNN": knn, "EASE": ease, "ALS": als, "BPR": bpr}


def of_peer(log: str, name: str, data: str | None, iterations: int) -> Iterator[Figure]:
    """Yield what another method finds, equal scores by half."""
    known = users_of(made(1_000) if data is None else TAKEN[log](Path(data)))
    seen, users = known.seen(), np.arange(len(known.last))
    scores = np.where(seen.toarray() > 0, -np.inf, np.asarray(PEERS[name](seen, iterations), np.float32))
    own = scores[users, known.last][:, None]
    rank = (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2
    yield from (Figure(f"{log}, {name}: recall@{k}", float((rank < k).mean()), "", peer=name) for k in KS)
