"""Gowalla as LightGCN splits it: recall@20 of ours over all items that a user does not have, beside published figures.

    python -m benchmarks.gowalla FOLDER [--only MODEL ...] [--json]

FOLDER has `test.txt`, and `train.txt` or `s_adj_mat.npz`, of github.com/gusye1234/LightGCN-PyTorch (data/gowalla):
29,858 users, 40,981 items, 810,128 rows to learn from and 217,242 to test on. A user's recall is the share of the user's
test items among the 20 best, and the figure is the mean of all users.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import Figure
from benchmarks.__main__ import RESULTS, document
from benchmarks.process import child, connect

USERS, ITEMS, LEARNED, TESTED, K = 29_858, 40_981, 810_128, 217_242, 20
LONGEST = 100
"""Items of a history that a tower or a tree meets, at random where a user has more."""
MODELS = {
    "slrm": "slrm WITH (passes = 2, @)",
    "two_tower": "two_tower (query = (history), item = (item), dim = 64, negatives = 500) ITEMS {items} WITH (passes = 2, @)",
    "xsvd": "xsvd (feedback = (history), negatives = 20, slim = true, alpha = 0.3, dim = 64, vector_alpha = 0.1) "
    "WITH (passes = 3, @)",
    "tdm": "tdm (item = (item), history = (history), beam = 200, tree = 'vectors') ITEMS {items} WITH (passes = 5, @)",
}
PUBLISHED = {"ItemCF": 0.1570, "EASE": 0.1765, "LightGCN": 0.1820, "SimpleX": 0.1872}
TARGETS = {"slrm: recall@20": ">= 0.1765"}


def lists(path: Path) -> dict[int, list[int]]:
    """Return the items of each user, of a file with a user and the user's items a line."""
    rows = (line.split() for line in path.read_text(encoding="ascii").splitlines() if line.strip())
    return {int(user): [int(item) for item in items] for user, *items in rows}


def learned_from(folder: Path) -> dict[int, list[int]]:
    if (folder / "train.txt").exists():
        return lists(folder / "train.txt")
    from scipy import sparse

    between = sparse.load_npz(folder / "s_adj_mat.npz").tocsr()[:USERS, USERS:]
    return {user: between.indices[between.indptr[user] : between.indptr[user + 1]].tolist() for user in range(USERS)}


def write_rows(folder: Path, into: Path) -> dict[int, list[int]]:
    """Write the rows to learn from, the users and the items; return the items to find.

    Raises:
        SystemExit: the files are not those of the published split.
    """
    had, wanted = learned_from(folder), lists(folder / "test.txt")
    found = len(had), sum(map(len, had.values())), sum(map(len, wanted.values()))
    if found != (USERS, LEARNED, TESTED):
        raise SystemExit(f"Expected {USERS} users, {LEARNED} and {TESTED} rows, got {found}: take the named files.")
    random = np.random.default_rng(1)
    lengths = np.array([len(items) for items in had.values()])
    user, item = np.repeat(list(had), lengths), np.concatenate([*had.values()])
    order = random.permutation(len(item))
    for name, most in (("long", ITEMS), ("short", LONGEST)):
        others = [others_of(np.array(items, np.int32), most, random) for items in had.values()]
        widths = np.repeat([one.shape[1] for one in others], lengths)
        histories = pa.ListArray.from_arrays(
            np.concatenate([[0], np.cumsum(widths)]).astype(np.int32), np.concatenate([one.reshape(-1) for one in others])
        )
        columns = {"label": np.ones(len(item), np.int8), "user": user[order], "item": item[order]}
        pq.write_table(
            pa.table({**columns, "history": histories.take(pa.array(order))}), into / f"{name}.parquet", row_group_size=65_536
        )
        kept = [items if len(items) <= most else random.choice(items, most, replace=False).tolist() for items in had.values()]
        own = {"user": list(had), "history": kept, "all": list(had.values())}
        pq.write_table(pa.table(own), into / f"users_{name}.parquet")
    pq.write_table(pa.table({"item": np.arange(ITEMS)}), into / "items.parquet")
    return wanted


def others_of(items: NDArray[np.int32], most: int, random: np.random.Generator) -> NDArray[np.int32]:
    """Return a line for each item of a user: the other items, or so many of them, at random."""
    n = len(items)
    others = np.broadcast_to(items, (n, n))[~np.eye(n, dtype=bool)].reshape(n, n - 1)
    if n - 1 <= most:
        return others
    return np.take_along_axis(others, random.random(others.shape).argpartition(most, axis=1)[:, :most], axis=1)


def recommended(folder: str, name: str) -> Iterator[list[int]]:
    """Train a model, and yield users and the items that each is recommended."""
    rows = "long" if name in ("slrm", "xsvd") else "short"
    items = f"(SELECT * FROM parquet.`{folder}/items.parquet`)"
    columns = {"slrm": "label, history, item", "xsvd": "label, user, item, history"}.get(name, "history, item")
    using = MODELS[name].replace("@", "share = (history AS item), workers = 1").format(items=items)
    with tempfile.TemporaryDirectory() as own, connect(Path(own) / "warehouse") as session:
        session.sql(f"TRAIN MODEL m USING {using} AS SELECT {columns} FROM parquet.`{folder}/{rows}.parquet`")
        call = f"MODEL m, (SELECT * FROM parquet.`{folder}/users_{rows}.parquet`), {K}, ITEMS {items}, EXCLUDE all"
        for user, found in session.sql(f"SELECT user, item FROM ML.RECOMMEND({call})").fetchall():
            yield [user, found]


def recall(found: list[list[int]], wanted: dict[int, list[int]]) -> float:
    """Return the mean over users of the share of their items that were found."""
    hits = dict.fromkeys(wanted, 0)
    of = {user: set(items) for user, items in wanted.items()}
    for user, item in found:
        hits[user] += item in of[user]
    return float(np.mean([hits[user] / len(items) for user, items in of.items()]))


def figures(folder: Path, models: list[str]) -> Iterator[Figure]:
    """Yield what each model finds, and what is published."""
    with tempfile.TemporaryDirectory(prefix="xpsql-bench-") as into:
        wanted = write_rows(folder, Path(into))
        for name in models:
            found, process = child(recommended, into, name)
            what = f"{name}: recall@{K}"
            yield Figure(what, recall(found, wanted), "", TARGETS.get(what, ""))
            yield Figure(f"{name}: CPU", process.cpu, "s")
    for peer, value in PUBLISHED.items():
        yield Figure(f"published: {peer}, recall@{K}", value, "", peer=peer)


def main() -> None:
    """Learn the split, and print figures as they come."""
    parser = argparse.ArgumentParser(
        "benchmarks.gowalla", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=tuple(MODELS), default=list(MODELS), metavar="MODEL")
    parser.add_argument("--json", action="store_true", help="write benchmarks/results/gowalla.json")
    given, found = parser.parse_args(), list[Figure]()
    for figure in figures(given.folder, given.only):
        print(figure.line(), flush=True)
        found.append(figure)
        if given.json:
            text = json.dumps(document("gowalla", found, "python -m benchmarks.gowalla FOLDER"), indent=1)
            (RESULTS / "gowalla.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    from benchmarks import gowalla  # whose functions other processes find by this name

    gowalla.main()
