"""Published tests of click models: AUC and logloss of ours, learned in BARS' way, beside what BARS publishes.

    python -m benchmarks.frappe FOLDER [--set NAME] [--only MODEL ...] [--seeds N] [--draw N] [--peer CHECKOUT] [--json]

FOLDER has, of the set `frappe`, `frappe.validation.libfm` and `frappe.test.libfm` of
github.com/hexiangnan/neural_factorization_machine (data/frappe), and either `train.csv` of
huggingface.co/datasets/reczoo/Frappe_x1 or `Mobile_Frappe.zip` of github.com/irecsys/CARSKit (context-aware_data_sets).
With the latter the training rows are made anew, as Frappe_x1r: its positives are what neither of the other parts has, and
each has two negatives, drawn as the published ones are: the same user and context, an item that the user has never used.
Of other sets FOLDER has `train.csv`, `valid.csv` and `test.csv` of huggingface.co/datasets/reczoo. Files whose MD5 is not
the published one are refused. None of them is part of this project, and Frappe may not be redistributed.

The protocol: one set of validation rows, AUC after each pass, rates a tenth after a pass without gain, an end after the
second one in a row. With --peer, a checkout of github.com/reczoo/FuxiCTR, its FinalMLP learns the same rows, too
(frappe_peer.py), and draws of the test rows say how far the AUC of `auto` and of `two_stream`, of the same seed, is off its
at least.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from benchmarks import Figure, spread
from benchmarks.__main__ import RESULTS, document
from benchmarks.frappe_peer import beside
from benchmarks.process import child, connect

FIELDS = ("user", "item", "daytime", "weekday", "isweekend", "homework", "cost", "weather", "country", "city")
OFFSETS = (0, 957, 5039, 5046, 5053, 5055, 5058, 5060, 5069, 5149)
NEGATIVES = 2
PARTS = ("train", "valid", "test")
MD5 = {
    "frappe": ("ba7306e6c4fc19dd2cd84f2f0596d158", "88d51bf2173505436d3a8f78f2a59da8", "3470f6d32713dc5f7715f198ca7c612a"),
    "criteo_x4": ("4a53bb7cbc0e4ee25f9d6a73ed824b1a", "fba5428b22895016e790e2dec623cb56", "cfc37da0d75c4d2d8778e76997df2976"),
    "avazu_x4": ("de3a27264cdabf66adf09df82328ccaa", "33232931d84d6452d3f956e936cab2c9", "3ebb774a9ca74d05919b84a3d402986d"),
    "movielens": ("efc8bceeaa0e895d566470fc99f3f271", "e1930223a5026e910ed5a48687de8af1", "54e8c6baff2e059fe067fb9b69e692d0"),
}
DIM = {"frappe": 10, "movielens": 10, "criteo_x4": 16, "avazu_x4": 16}
DEEP = "OPERATORS (adam (whole = true, l2 = {l2}) ON vectors)"
L2 = {"frappe": 200, "movielens": 20, "criteo_x4": 1, "avazu_x4": 1}
"""Of the sum over an update's examples: BARS' strengths, of the mean loss, times 4,096."""
NETWORK = "wide = false, hidden = (400, 400, 400), normalise = 'batch_norm', dropout = 0.2, init_scale = 0.0001"
TARGETS = {"frappe, auto": ">= 0.9861"}
"""The best of what is published."""
PEER_OF = ("auto", "two_stream")


class Model(NamedTuple):
    """What is learned, and what BARS publishes of it: (AUC, logloss) by set.

    Attributes:
        deep: with the recipe of networks: Adam and L2 on vectors.
    """

    using: str
    published: Mapping[str, tuple[float, float]]
    peer: str
    deep: bool = False


AUTO = "auto BUDGET 2 MINUTES"
MODELS = {
    "auto": Model(AUTO, {"frappe": (0.9861, 0.1484), "movielens": (0.9725, 0.1941)}, "the best model"),
    "xftrl": Model("xftrl", {"frappe": (0.9356, 0.3076), "movielens": (0.9342, 0.3201)}, "LR"),
    "fm": Model("fm (dim = {dim})", {"frappe": (0.9671, 0.2065), "movielens": (0.9434, 0.2729)}, "FM"),
    "ffm": Model("ffm (dim = 4)", {"frappe": (0.9786, 0.1860), "movielens": (0.9556, 0.2422)}, "FFM"),
    "xnn by default": Model("xnn", {"frappe": (0.9833, 0.1622), "movielens": (0.9678, 0.2388)}, "DNN"),
    "deepfm by default": Model("deepfm", {"frappe": (0.9842, 0.1482), "movielens": (0.9685, 0.2130)}, "DeepFM"),
    "dcn by default": Model("dcn", {"frappe": (0.9845, 0.1491), "movielens": (0.9691, 0.2147)}, "DCN-V2"),
    "xnn": Model(
        f"xnn (dim = {{dim}}, {NETWORK})",
        {"frappe": (0.9833, 0.1622), "movielens": (0.9678, 0.2388)},
        "DNN",
        True,
    ),
    "deepfm": Model(
        f"deepfm (dim = {{dim}}, {NETWORK})", {"frappe": (0.9842, 0.1482), "movielens": (0.9685, 0.2130)}, "DeepFM", True
    ),
    "dcn": Model(
        f"dcn (dim = {{dim}}, {NETWORK})", {"frappe": (0.9845, 0.1491), "movielens": (0.9691, 0.2147)}, "DCN-V2", True
    ),
    "final": Model(
        "final (dim = {dim}, wide = false, hidden = (400, 400), dropout = 0.1, init_scale = 0.0001, blocks = 1)",
        {"frappe": (0.9857, 0.1311), "movielens": (0.9725, 0.1941)},
        "FinalNet",
        True,
    ),
    "two_stream": Model(
        "two_stream (dim = {dim}, wide = false, hidden = (400), second_hidden = (100), heads = 5, dropout = 0.4, "
        "init_scale = 0.0001, first = (user), second = (item))",
        {"frappe": (0.9861, 0.1484), "movielens": (0.9720, 0.1966)},
        "FinalMLP",
        True,
    ),
}


def checked(text: bytes, name: str, found: str) -> pa.Table:
    """Return the table of a CSV file.

    Raises:
        SystemExit: its MD5 is not that of the published file.
    """
    part = PARTS[MD5[name].index(found)]
    if (md5 := hashlib.md5(text).hexdigest()) != found:
        raise SystemExit(f"{part}.csv of {name} has MD5 {md5}, the published file {found}: take that file.")
    return csv.read_csv(io.BytesIO(text))


def numbered(path: Path) -> list[tuple[int, ...]]:
    """Return the lines of a libfm file: the label as 0 or 1, and the number of each field's value."""
    rows = (line.split() for line in path.read_text(encoding="ascii").splitlines() if line.strip())
    return [(int(first == "1"), *(int(field.partition(":")[0]) for field in rest)) for first, *rest in rows]


def as_csv(rows: list[tuple[int, ...]]) -> bytes:
    return "".join(",".join(map(str, row)) + "\r\n" for row in [("label", *FIELDS), *rows]).encode()


def all_uses(folder: Path) -> list[tuple[int, ...]]:
    """Return which app was used by whom and when, as numbers: a column's values by their first appearance."""
    with zipfile.ZipFile(folder / "Mobile_Frappe.zip") as archive, archive.open("Mobile_Frappe/frappe/frappe.csv") as file:
        table = csv.read_csv(file, parse_options=csv.ParseOptions(delimiter="\t"))
    columns = []
    for name, offset in zip(FIELDS, OFFSETS, strict=True):
        seen: dict[object, int] = {}
        columns.append([offset + seen.setdefault(value, len(seen)) for value in table[name].to_pylist()])
    return list(zip(*columns, strict=True))


def remade(uses: list[tuple[int, ...]], known: list[tuple[int, ...]], draw: int) -> list[tuple[int, ...]]:
    """Return the training rows: positives that are in no other part, and the negatives that are still to be had.

    Args:
        uses: all positives, without labels; known: the rows of validation and test, with labels.
    """
    positives, contexts = Counter(uses), Counter({(row[0], *row[2:]): 0 for row in uses})
    for row in uses:
        contexts[row[0], *row[2:]] += NEGATIVES
    positives.subtract(row[1:] for row in known if row[0])
    contexts.subtract((row[1], *row[3:]) for row in known if not row[0])
    if min(positives.values()) < 0 or min(contexts.values()) < 0:
        raise SystemExit("The rows of validation and test are not among those of Mobile_Frappe.zip: take the named files.")
    own: dict[int, set[int]] = {}
    for user, item, *_ in uses:
        own.setdefault(user, set()).add(item)
    items, random = np.array(sorted({row[1] for row in uses})), np.random.default_rng(draw)
    others = {user: np.array([item for item in items if item not in used]) for user, used in own.items()}
    made = [(1, *row) for row in positives.elements()]
    made += [(0, user, int(random.choice(others[user])), *rest) for user, *rest in contexts.elements()]
    return [made[place] for place in random.permutation(len(made))]


def tables(folder: Path, name: str, draw: int) -> tuple[str, list[pa.Table]]:
    """Return what the set is called, and its three parts."""
    if name != "frappe":
        parts = ((folder / f"{part}.csv").read_bytes() for part in PARTS)
        return name, [checked(text, name, md5) for text, md5 in zip(parts, MD5[name], strict=True)]
    known = [numbered(folder / f"frappe.{part}.libfm") for part in ("validation", "test")]
    rest = [checked(as_csv(rows), name, md5) for rows, md5 in zip(known, MD5[name][1:], strict=True)]
    if (folder / "train.csv").exists():
        return "Frappe_x1", [checked((folder / "train.csv").read_bytes(), name, MD5[name][0]), *rest]
    rows = remade(all_uses(folder), [row for part in known for row in part], draw)
    return "Frappe_x1r", [csv.read_csv(io.BytesIO(as_csv(rows))), *rest]


def statement(model: Model, name: str, seed: int, numbers: tuple[str, ...]) -> str:
    """Return the statement that trains a model; columns but `numbers` are categories."""
    using = model.using.format(dim=DIM[name])
    operators = DEEP.format(l2=L2[name]) if model.deep else ""
    batch = ", batch_size = 4096" if model.deep else ""
    passes = "" if model.using == AUTO else ", passes = 100, patience = 2, patience_by = 'auc', plateau = 0.1"
    return (
        f"TRAIN OR REPLACE MODEL m USING {using} LABEL label {operators} "
        "VALIDATE ON (SELECT * FROM parquet.`{valid}`) "
        f"WITH (workers = 1, seed = {seed}{passes}{batch}) "
        "AS SELECT * FROM parquet.`{train}`"
    )


def learned(folder: str, name: str, model: str, seed: int) -> Iterator[list[float]]:
    """Train a model; yield AUC and logloss of the test rows, and the pass that was kept, and then their predictions."""
    paths = {part: Path(folder) / f"{part}.parquet" for part in PARTS}
    with tempfile.TemporaryDirectory() as own, connect(Path(own) / "warehouse") as session:
        session.sql(statement(MODELS[model], name, seed, ()).format(**paths))
        query = f"SELECT auc, logloss FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{paths['test']}`))"
        ((auc, logloss),) = session.sql(query).fetchall()
        ((passes,),) = session.sql("SELECT max(pass) FROM ML.TRAINING_INFO(MODEL m)").fetchall()
        scored = session.sql(f"SELECT predicted_label FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{paths['test']}`))")
        yield [auc, logloss, passes]
        yield [row[0] for row in scored.fetchall()]


def figures(folder: Path, name: str, models: list[str], seeds: int, peer: str) -> Iterator[Figure]:
    """Yield what each model comes to, what BARS publishes, and what is between ours and FuxiCTR's FinalMLP on the same rows.

    Args:
        peer: a checkout of FuxiCTR; without one it is left out.
    """
    predicted: dict[str, list[list[float]]] = {}
    for model in models:
        found, spent, target = [], [], TARGETS.get(f"{name}, {model}", "")
        for seed in range(1, seeds + 1):
            (row, scored), process = child(learned, folder, name, model, seed)
            found.append(row)
            spent.append(process.cpu)
            if model in PEER_OF:
                predicted.setdefault(model, []).append(scored)
        yield spread(f"{model}: test AUC", [row[0] for row in found], "")._replace(target=target)
        yield spread(f"{model}: test logloss", [row[1] for row in found], "")
        yield spread(f"{model}: CPU", spent, "s")
        if MODELS[model].using != AUTO:
            yield spread(f"{model}: passes", [row[2] for row in found], "")
        if (published := MODELS[model].published.get(name)) is not None:
            for what, value in zip(("AUC", "logloss"), published, strict=True):
                yield Figure(f"{model}: published {what}", value, "", peer=MODELS[model].peer)
    if peer and predicted:
        label = pq.read_table(folder / "test.parquet")["label"].to_numpy()
        yield from beside(folder, peer, label, predicted)


def main() -> None:
    """Rebuild a set, learn it, and print figures as they come."""
    parser = argparse.ArgumentParser(
        "benchmarks.frappe", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", choices=tuple(MD5), default="frappe", dest="name")
    parser.add_argument("--only", nargs="+", choices=tuple(MODELS), default=list(MODELS), metavar="MODEL")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draw", type=int, default=1, help="the seed of the negatives that are drawn")
    parser.add_argument("--json", action="store_true", help="write benchmarks/results/SET.json")
    parser.add_argument("--peer", default="", metavar="CHECKOUT", help="of FuxiCTR, in a Python that XPSQL_PEERS names")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="xpsql-bench-") as folder:
        called, parts = tables(given.folder, given.name, given.draw)
        for part, table in zip(PARTS, parts, strict=True):
            columns = {
                field: table[field] if field == "label" else table[field].cast(pa.string()) for field in table.column_names
            }
            pq.write_table(pa.table(columns), Path(folder) / f"{part}.parquet")
        print(
            f"{called}: {', '.join(f'{table.num_rows:,} {part}' for part, table in zip(PARTS, parts, strict=True))}", flush=True
        )
        found = []
        for figure in figures(Path(folder), given.name, given.only, given.seeds, given.peer):
            print(figure.line(), flush=True)
            found.append(figure)
            if given.json:
                text = json.dumps(
                    document(given.name, found, f"python -m benchmarks.frappe FOLDER --set {given.name}"), indent=1
                )
                (RESULTS / f"{given.name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    from benchmarks import frappe  # whose functions other processes find by this name

    frappe.main()
