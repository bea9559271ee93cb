"""two_tower and tdm on what people bought and watched, beside popularity, item-kNN and EASE: recall of each user's last item.

    python -m benchmarks.retrieval FOLDER LOG [PASSES] [SEED] [MODEL ...]
    python -m benchmarks.retrieval FOLDER LOG [PASSES] --new SEED ...
    python -m benchmarks.retrieval FOLDER LOG [PASSES] --paired SEED ...

FOLDER and LOG are those of benchmarks.recommendation, which has the other peers; groceries have categories in item_meta.csv.gz.
MODEL is the beginning of a name in MODELS. The last item of each user is left out and looked for among all items but those that
the user has. Rows to learn from are each earlier item but the first with what was had before it, in random order. For 1,000
users the beam of `tdm` stands beside the ranking of all leaves by the same network, and how many nodes a user costs; `rebuilt`
learns twice the passes, with the tree made anew between. Seconds are of CPUs. `all_games` has too many items for the peers.

--new: what CONTINUE brings to items that are new. A tenth of the items, drawn by SEED, is in no row at first; a day that
follows has all rows about them, and three of others for each. Recall@20 of users whose last item is another one, and of those
whose last item is new, before the day, after one pass of it, and where all rows are learned at once.

--paired: the correction of two_tower against none, each with every SEED: recall@20, and the difference over users, each one's
mean over the seeds, with its t.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.recommendation import LOGS, Scores, Users, ease, knn, popularity, users
from xpsql import Session, connect
from xpsql.platform.progress import SilentReporter
from xpsql.platform.scoring.beam import Beam
from xpsql.platform.scoring.best import ExcludedItems
from xpsql.platform.scoring.by_algorithm import AlgorithmScorer
from xpsql.platform.scoring.weights import Weights
from xpsql.platform.training.recipe import algorithm_of

KS = (20, 50)
USERS = 1000
SHARE = "share = (history AS item), workers = 1"
MODELS = {
    "two_tower": "two_tower (query = (history), item = ({item}), temperature = {temperature})",
    "two_tower, 500 random items": "two_tower (query = (history), item = ({item}), temperature = {temperature}, "
    "negatives = 500)",
    "two_tower, no correction": "two_tower (query = (history), item = ({item}), temperature = {temperature}, "
    "correction = 'none')",
    "tdm, by category": "tdm (item = ({item}), history = (history), beam = 60)",
    "tdm, by vectors": "tdm (item = ({item}), history = (history), beam = 60, tree = 'vectors')",
    "tdm, by vectors, rebuilt": "tdm (item = ({item}), history = (history), beam = 60, tree = 'vectors', rebuild = 1) "
    "VALIDATE ON 0.1",
}
TEMPERATURE = 0.1
DAY = 3  # rows of other items for each of a new one


def categories(folder: Path, log: str, items: Sequence[str]) -> list[str] | None:
    """Return the category of each item; None of a log that has none."""
    if log != "groceries":
        return None
    path = folder / "amazon_grocery_rechorus" / "item_meta.csv.gz"
    table = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter="\t"))
    found = dict(zip(map(str, table["item_id"].to_pylist()), table["i_category"].to_pylist(), strict=True))
    return [f"c{found[item]}" if item in found else "none" for item in items]


def before_each(known: Users, folder: Path, names: list[str] | None) -> tuple[Path, Path, Path]:
    """Write the rows to learn from, the last items, and the items."""
    rows = [(one[:i], item) for one in known.histories for i, item in enumerate(one) if i]
    order = np.random.default_rng(1).permutation(len(rows))
    history, item = zip(*(rows[i] for i in order), strict=True)
    bought = np.unique(known.seen.indices)
    tables = {
        "rows": {"history": history, "item": item},
        "last": {"history": known.histories, "item": known.last},
        "items": {"item": bought} | ({} if names is None else {"category": [names[i] for i in bought]}),
    }
    for name, columns in tables.items():
        pq.write_table(pa.table({key: pa.array(list(values)) for key, values in columns.items()}), folder / f"{name}.parquet")
    return folder / "rows.parquet", folder / "last.parquet", folder / "items.parquet"


def of_peer(known: Users, scores: Scores) -> list[float]:
    """Return recall at each of KS, where equal scores count half."""
    scores = np.where(known.seen.toarray() > 0, -np.inf, scores)
    own = scores[np.arange(len(known.last)), known.last]
    rank = (scores > own[:, None]).sum(axis=1) + ((scores == own[:, None]).sum(axis=1) - 1) / 2
    return [float((rank < k).mean()) for k in KS]


def of_leaves(session: Session, last: Path, items: Path) -> Iterator[str]:
    """Yield the recall of the beam and that of all leaves' scores, of some users, and how many nodes a user costs."""
    version = session.models.version("m")
    algorithm = algorithm_of(version.manifest)
    scorer = AlgorithmScorer(version, Weights(version, 0, 1).pull, None)
    catalogue, asking = pq.read_table(items), pq.read_table(last)
    asking = asking.take(np.sort(np.random.default_rng(0).permutation(len(asking))[:USERS]))
    at = {item: place for place, item in enumerate(catalogue["item"].to_pylist())}
    for what, size in (("beam", None), ("all leaves", 1 << 20)):
        search, hits = Beam(version, scorer, algorithm, catalogue, size), np.zeros(len(KS))
        for start in range(0, len(asking), search.rows):
            part = asking.slice(start, search.rows)
            had = [(row, at[item]) for row, one in enumerate(part["history"].to_pylist()) for item in set(one)]
            best = search.best(part.select(["history"]), max(KS), ExcludedItems.of(*np.array(had, np.int64).T))
            wanted = np.array([at.get(item, -1) for item in part["item"].to_pylist()])
            hits += [(best.places[:, :k] == wanted[:, None]).any(axis=1).sum() for k in KS]
        yield f"{what} | {' | '.join(f'{one:.4f}' for one in hits / len(asking))} | {search.scored} nodes |"


def lines(folder: Path, log: str, passes: int, seed: int, wanted: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the table."""
    known = users(LOGS[log](folder))
    names = categories(folder, log, known.items)
    counted = f"{len(known.last)} users, {len(np.unique(known.seen.indices))} items, {known.seen.nnz} taken"
    yield f"{counted}, {passes} passes, seed {seed}"
    if not wanted:
        for what, scores in (("popularity", popularity(known)), ("item-kNN", knn(known, 100)), ("EASE", ease(known, 100))):
            yield f"| {what} | {' | '.join(f'{one:.4f}' for one in of_peer(known, scores))} | |"
    with tempfile.TemporaryDirectory() as name, connect(Path(name) / "warehouse", reporter=SilentReporter()) as session:
        rows, last, items = before_each(known, Path(name), names)
        for what in [what for what in MODELS if not wanted or any(map(what.startswith, wanted))]:
            start = time.process_time()
            train(session, using(what, names), items, rows, f"passes = {passes}, seed = {seed}")
            seconds = time.process_time() - start
            call = f"MODEL m, (SELECT * FROM parquet.`{last}`), ITEMS (SELECT * FROM parquet.`{items}`), {KS}, EXCLUDE history"
            found = session.sql(f"SELECT recall FROM ML.EVALUATE({call})").arrow().column(0).to_pylist()
            yield f"| {what} | {' | '.join(f'{one:.4f}' for one in found)} | {seconds:.0f} s |"
            if what.startswith("tdm"):
                yield from (f"| {what}, {USERS} users: {line}" for line in of_leaves(session, last, items))


def using(what: str, names: list[str] | None) -> str:
    """Return a model of MODELS as USING has it."""
    return MODELS[what].format(temperature=TEMPERATURE, item="item" if names is None else "item, category")


def paired(folder: Path, log: str, passes: int, seeds: Sequence[int]) -> Iterator[str]:
    """Yield a line for each seed, and the difference over users."""
    known = users(LOGS[log](folder))
    names = categories(folder, log, known.items)
    differences = np.zeros(len(known.last))
    with tempfile.TemporaryDirectory() as name, connect(Path(name) / "warehouse", reporter=SilentReporter()) as session:
        rows, last, items = before_each(known, Path(name), names)
        for seed in seeds:
            found = []
            for what in ("two_tower", "two_tower, no correction"):
                train(session, using(what, names), items, rows, f"passes = {passes}, seed = {seed}")
                found.append(hits(session, last, items))
            differences += (found[0] - found[1]) / len(seeds)
            yield f"| seed {seed} | {found[0].mean():.4f} | {found[1].mean():.4f} |"
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    yield f"{differences.mean():+.4f}, standard error {error:.4f}, t = {differences.mean() / error:.1f}, {len(seeds)} seeds"


def train(session: Session, model: str, items: Path, rows: Path, settings: str) -> None:
    session.sql(
        f"TRAIN OR REPLACE MODEL m USING {model} ITEMS (SELECT * FROM parquet.`{items}`) WITH ({SHARE}, {settings}) "
        f"AS SELECT history, item FROM parquet.`{rows}`"
    )


def hits(session: Session, last: Path, items: Path) -> NDArray[np.float64]:
    """Return for each user whether the last item is among the best."""
    asking, path = pq.read_table(last), last.with_name("asking.parquet")
    named = asking.select(["history", "item"]).rename_columns(["history", "wanted"])
    pq.write_table(named.append_column("person", pa.array(np.arange(len(asking)))), path)
    best = session.sql(
        f"SELECT person FROM ML.RECOMMEND(MODEL m, (SELECT * FROM parquet.`{path}`), {KS[0]}, "
        f"ITEMS (SELECT * FROM parquet.`{items}`), EXCLUDE history) WHERE item = wanted"
    ).arrow()["person"]
    return np.bincount(best.to_numpy(), minlength=len(asking)).astype(np.float64)


def new_items(folder: Path, log: str, passes: int, seeds: Sequence[int]) -> Iterator[str]:
    """Yield a line for each state of the model and each seed."""
    known = users(LOGS[log](folder))
    names = categories(folder, log, known.items)
    yield "| seed | | other items | new items |"
    for seed in seeds:
        with tempfile.TemporaryDirectory() as name, connect(Path(name) / "warehouse", reporter=SilentReporter()) as session:
            rows, last, items = before_each(known, Path(name), names)
            begun, day, old, others, new = without_new(rows, last, items, seed)
            for what, catalogue, learned in (("before the day", old, begun), ("after", items, day), ("at once", items, rows)):
                if what == "after":
                    session.sql(
                        f"CONTINUE MODEL m ITEMS (SELECT * FROM parquet.`{items}`) WITH (passes = 1) "
                        f"AS SELECT history, item FROM parquet.`{learned}`"
                    )
                else:
                    train(session, using("two_tower", names), catalogue, learned, f"passes = {passes}, seed = {seed}")
                found = [hits(session, wanted, items).mean() for wanted in (others, new)]
                yield f"| {seed} | {what} | {' | '.join(f'{one:.4f}' for one in found)} |"


def without_new(rows: Path, last: Path, items: Path, seed: int) -> list[Path]:
    """Write what is known before a tenth of the items is: rows without them, the rows of the day on which they come, the other
    items, and users whose last item is another and a new one."""
    random = np.random.default_rng(seed)
    learned, wanted, catalogue = (pq.read_table(path) for path in (rows, last, items))
    every = catalogue["item"].to_numpy()
    new = random.choice(every, len(every) // 10, replace=False)
    fresh = np.isin(learned["item"].to_numpy(), new)
    day = fresh | (random.random(len(fresh)) < DAY * fresh.sum() / (~fresh).sum())
    before = learned.filter(pa.array(~day))
    hidden = set(new.tolist())
    histories = [[item for item in one if item not in hidden] for one in before["history"].to_pylist()]
    before = before.set_column(0, "history", pa.array(histories, learned.schema.field("history").type))
    ended = np.isin(wanted["item"].to_numpy(), new)
    parts = {
        "before": before,
        "day": learned.filter(pa.array(day)),
        "old": catalogue.filter(pa.array(~np.isin(every, new))),
        "others": wanted.filter(pa.array(~ended)),
        "new": wanted.filter(pa.array(ended)),
    }
    for name, table in parts.items():
        pq.write_table(table, rows.with_name(f"{name}.parquet"))
    return [rows.with_name(f"{name}.parquet") for name in parts]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("log", choices=LOGS)
    parser.add_argument("passes", type=int, nargs="?", default=5)
    parser.add_argument("seed", type=int, nargs="?", default=7)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    for mode in ("--new", "--paired"):
        parser.add_argument(mode, type=int, nargs="+", metavar="SEED")
    given = parser.parse_intermixed_args()
    about = (given.folder, given.log, given.passes)
    if given.new:
        found = new_items(*about, given.new)
    elif given.paired:
        found = paired(*about, given.paired)
    else:
        found = lines(*about, given.seed, given.models)
    for text in found:
        print(text, flush=True)
