"""two_tower and tdm on what people bought and watched, beside popularity, item-kNN and EASE: recall of each user's last item.

    python -m benchmarks.retrieval FOLDER LOG [PASSES] [SEED] [MODEL ...]

FOLDER and LOG are those of benchmarks.recommendation, which has the other peers; groceries have categories in item_meta.csv.gz.
MODEL is the beginning of a name in MODELS. The last item of each user is left out and looked for among all items but those that
the user has. Rows to learn from are each earlier item but the first with what was had before it, in random order. Beside the
beam of `tdm` stands the ranking of all leaves by the same network, and how many nodes a user costs; seconds are of CPUs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from benchmarks.recommendation import LOGS, Scores, Users, ease, knn, popularity, users
from xpsql import Session, connect
from xpsql.platform.progress import SilentReporter
from xpsql.platform.scoring.beam import Beam
from xpsql.platform.scoring.best import ExcludedItems
from xpsql.platform.scoring.by_algorithm import AlgorithmScorer
from xpsql.platform.scoring.weights import Weights
from xpsql.platform.training.recipe import algorithm_of

KS = (20, 50)
SHARE = "share = (history AS item), workers = 1"
MODELS = {
    "two_tower": "two_tower (query = (history), item = ({item}), temperature = {temperature})",
    "two_tower, 500 random items": "two_tower (query = (history), item = ({item}), temperature = {temperature}, "
    "negatives = 500)",
    "two_tower, no correction": "two_tower (query = (history), item = ({item}), temperature = {temperature}, "
    "correction = 'none')",
    "tdm, by category": "tdm (item = ({item}), history = (history), beam = 60)",
    "tdm, by vectors": "tdm (item = ({item}), history = (history), beam = 60, tree = 'vectors')",
}
TEMPERATURE = 0.1


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


def all_leaves(session: Session, last: Path, items: Path) -> tuple[list[float], int, int]:
    """Return the recall of all leaves' scores, and how many nodes a user costs there and in the beam."""
    version = session.models.version("m")
    algorithm = algorithm_of(version.manifest)
    scorer = AlgorithmScorer(version, Weights(version, 0, 1).pull, None)
    catalogue, asking = pq.read_table(items), pq.read_table(last)
    beam, whole = (Beam(version, scorer, algorithm, catalogue, size) for size in (None, 1 << 20))
    at = {item: place for place, item in enumerate(catalogue["item"].to_pylist())}
    hits = np.zeros(len(KS))
    for start in range(0, len(asking), whole.rows):
        part = asking.slice(start, whole.rows)
        had = [(row, at[item]) for row, one in enumerate(part["history"].to_pylist()) for item in set(one)]
        out = ExcludedItems.of(*np.array(had, np.int64).T)
        best = whole.best(part.select(["history"]), max(KS), out)
        if not start:
            beam.best(part.select(["history"]), max(KS), out)
        wanted = np.array([at.get(item, -1) for item in part["item"].to_pylist()])
        hits += [(best.places[:, :k] == wanted[:, None]).any(axis=1).sum() for k in KS]
    return (hits / len(asking)).tolist(), whole.scored, beam.scored


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
            using = MODELS[what].format(temperature=TEMPERATURE, item="item" if names is None else "item, category")
            catalogue, query = f"SELECT * FROM parquet.`{items}`", f"SELECT history, item FROM parquet.`{rows}`"
            settings = f"{SHARE}, passes = {passes}, seed = {seed}"
            session.sql(f"TRAIN OR REPLACE MODEL m USING {using} ITEMS ({catalogue}) WITH ({settings}) AS {query}")
            seconds = time.process_time() - start
            call = f"MODEL m, (SELECT * FROM parquet.`{last}`), ITEMS (SELECT * FROM parquet.`{items}`), {KS}, EXCLUDE history"
            found = session.sql(f"SELECT recall FROM ML.EVALUATE({call})").arrow().column(0).to_pylist()
            yield f"| {what} | {' | '.join(f'{one:.4f}' for one in found)} | {seconds:.0f} s |"
            if what.startswith("tdm"):
                recall, every, few = all_leaves(session, last, items)
                reported = f"{every} leaves in place of {few} nodes"
                yield f"| {what}, all leaves | {' | '.join(f'{one:.4f}' for one in recall)} | {reported} |"


if __name__ == "__main__":
    folder, log, *rest = sys.argv[1:]
    for text in lines(Path(folder), log, int(rest[0]) if rest else 5, int(rest[1]) if rest[1:] else 7, rest[2:]):
        print(text, flush=True)
