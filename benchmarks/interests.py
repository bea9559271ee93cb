"""Networks over histories or of several labels on published logs: python -m benchmarks.interests FOLDER RESULTS [LOG [SEEDS]]
trains what is not yet in the file RESULTS, a line for each model and seed, and prints the means; the rows lie beside it as
Parquet, for `python -m benchmarks.peers.interests RESULTS LOG SEEDS` and `benchmarks.peers.multi_task` in an environment that
has these peers.

The folder has `kuairand_kcore15/log_standard_kcore15.tsv.gz`, impressions in order of time, whose last fifth is the test, and
`amazon_grocery_rechorus/{train,item_meta}.csv.gz` and `amazon_videogames_sasrec/Video.txt.gz`, what users bought: of each the
last is the test, and beside each row with what was bought is one with an item that the user never bought, label 0. Of those who
bought video games every fifth is taken.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

import xpsql
from benchmarks.auc import auc
from xpsql.platform.progress import SilentReporter
from xpsql.platform.training.metrics.groups import gauc

LONGEST = 50
PASSES = {"kuairand": 2, "kuairand-booster": 2, "grocery": 2, "games": 2, "kuairand-tasks": 3}
SIZES = "dim = 16, hidden = (128, 64), vector_learning_rate = 0.1"
FIELDS = {
    "kuairand-tasks": ((), ()),
    "kuairand-booster": ((), ()),
    "kuairand": (("video",), ("seen",)),
    "grocery": (("item", "category"), ("bought", "bought_categories")),
    "games": (("item",), ("bought",)),
}


def kuairand(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Return impressions with what the user clicked before: rows to learn from and to test on."""
    tabs = csv.ParseOptions(delimiter="\t")
    log = csv.read_csv(folder / "kuairand_kcore15" / "log_standard_kcore15.tsv.gz", parse_options=tabs).sort_by("time_ms")
    before, seen = defaultdict[int, list[str]](list), []
    for user, video, click in zip(*(log[name].to_pylist() for name in ("user_id", "video_id", "is_click")), strict=True):
        seen.append(before[user][-LONGEST:])
        if click:
            before[user].append(str(video))
    minute = log["time_ms"].to_numpy() // 1_800_000 % 48
    columns = {"label": log["is_click"], "user": log["user_id"], "video": log["video_id"].cast(pa.string())}
    table = pa.table({**columns, "half_hour": minute, "seen": pa.array(seen, pa.list_(pa.string()))})
    cut = len(table) * 4 // 5
    return table[:cut], table[cut:]


def grocery(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Return what users bought, and an item that they did not, with what they had bought before."""
    log = csv.read_csv(folder / "amazon_grocery_rechorus" / "train.csv.gz", parse_options=csv.ParseOptions(delimiter="\t"))
    meta = csv.read_csv(
        folder / "amazon_grocery_rechorus" / "item_meta.csv.gz",
        parse_options=csv.ParseOptions(delimiter="\t"),
        convert_options=csv.ConvertOptions(include_columns=["item_id", "i_category"]),
    )
    category = dict(zip(meta["item_id"].to_pylist(), meta["i_category"].to_pylist(), strict=True))
    had = defaultdict[int, list[int]](list)
    for user, item in zip(*(log.sort_by("time")[name].to_pylist() for name in ("user_id", "item_id")), strict=True):
        had[user].append(item)

    def with_categories(table: pa.Table) -> pa.Table:
        own = [category[item] for item in table["item"].to_pylist()]
        of_history = [[category[item] for item in items] for items in table["bought"].to_pylist()]
        return table.append_column("category", [own]).append_column("bought_categories", [of_history])

    train, test = with_others(had, np.array(sorted(category)))
    return with_categories(train), with_categories(test)


def games(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Return the same of video games, which have no categories."""
    names = csv.ReadOptions(column_names=["user", "item"])
    path = folder / "amazon_videogames_sasrec" / "Video.txt.gz"
    log = csv.read_csv(path, read_options=names, parse_options=csv.ParseOptions(delimiter=" "))
    had = defaultdict[int, list[int]](list)
    for user, item in zip(log["user"].to_pylist(), log["item"].to_pylist(), strict=True):
        if user % 5 == 0:
            had[user].append(item)
    return with_others(had, np.unique(log["item"].to_numpy()))


def with_others(had: Mapping[int, list[int]], items: NDArray[np.int64]) -> tuple[pa.Table, pa.Table]:
    """Return rows of what users bought after something else, and beside each an item that they never bought: those to learn
    from, in any order, and those to test on."""
    random, rows = np.random.default_rng(0), {"train": list[tuple[int, int, int, list[int]]](), "test": []}
    for user, bought in had.items():
        for k in range(1, len(bought)):
            while (other := int(random.choice(items))) in bought:
                pass
            kind, history = "test" if k == len(bought) - 1 else "train", bought[max(0, k - LONGEST) : k]
            rows[kind] += [(1, user, bought[k], history), (0, user, other, history)]
    order = random.permutation(len(rows["train"]))
    rows["train"] = [rows["train"][place] for place in order]
    names = ("label", "user", "item", "bought")
    train, test = (pa.table(dict(zip(names, zip(*kind, strict=True), strict=True))) for kind in rows.values())
    return train, test


def tasks(folder: Path) -> tuple[pa.Table, pa.Table]:
    """Return KuaiRand's impressions with two labels: a click, and a click with a long view."""
    tabs = csv.ParseOptions(delimiter="\t")
    log = csv.read_csv(folder / "kuairand_kcore15" / "log_standard_kcore15.tsv.gz", parse_options=tabs).sort_by("time_ms")
    click, long = (log[name].to_numpy() == 1 for name in ("is_click", "long_view"))
    names = {"user": log["user_id"].cast(pa.string()), "video": log["video_id"].cast(pa.string())}
    labels = {"click": click.astype(np.int8), "long": (click & long).astype(np.int8)}
    table = pa.table({**names, "half_hour": log["time_ms"].to_numpy() // 1_800_000 % 48, **labels})
    cut = len(table) * 4 // 5
    return table[:cut], table[cut:]


LOGS = {"kuairand": kuairand, "kuairand-booster": kuairand, "grocery": grocery, "games": games, "kuairand-tasks": tasks}


def models(log: str) -> dict[str, str]:
    """Return the algorithms that are compared, with their options."""
    if log == "kuairand-tasks":
        deep, small = "hidden = (64, 32, 128, 64)", "experts = 2, expert_hidden = (32), hidden = (32)"
        return {
            "xnn, long alone": "xnn",
            "xnn": "xnn",
            f"xnn ({deep}), long alone": f"xnn ({deep})",
            "xnn (hidden = (32)), long alone": "xnn (hidden = (32))",
            **{f"multi_task {more}".strip(): f"multi_task {more}" for more in ("", "(chain = true)", "(base = ple)")},
            **{
                f"multi_task (chain = true, {more})": f"multi_task (chain = true, {more})"
                for more in ("hidden = (32)", "task_weights = (0.3, 1)", "hidden = (32), task_weights = (0.3, 1)")
            },
            **{
                f"multi_task (base = mmoe{more})": f"multi_task (base = mmoe{more})"
                for more in ("", ", hidden = (32)", f", {small}")
            },
        }
    if log == "kuairand-booster":
        return {
            "xnn (hidden = (16))": "xnn (hidden = (16))",
            "xnn (hidden = (16), booster = (512, 256, 128))": "xnn (hidden = (16), booster = (512, 256, 128))",
            "xnn (hidden = (512, 256, 128))": "xnn (hidden = (512, 256, 128))",
        }
    target, history = (", ".join(names) for names in FIELDS[log])
    held = f"target = ({target}), history = ({history}), length = {LONGEST}, {SIZES}"
    pooled = f"pooled = ({history}), pooled_length = {LONGEST}, clusters = 8, {SIZES}"
    return {
        "xnn, sum of the history": f"xnn ({SIZES})",
        "xnn, mean of the history": f"xnn (pooling = 'mean', {SIZES})",
        "wide_deep, netvlad(8)": f"wide_deep ({pooled})",
        "wide_deep, nextvlad(8)": f"wide_deep (vlad = 'nextvlad', {pooled})",
        "din": f"din ({held})",
        "dien, auxiliary = 0": f"dien (auxiliary = 0, {held})",
        "dien": f"dien ({held})",
        "dien, layers at half the rate": f"dien ({held}, learning_rate = 0.0005)",
        "dien, both at half the rate": f"dien ({held.replace('0.1', '0.05')}, learning_rate = 0.0005)",
    }


def rows_of(log: str, folder: Path, results: Path) -> list[Path]:
    """Write the rows of a log beside the results, once; return the files to learn from and to test on."""
    paths = [results.with_name(f"{log}-{name}.parquet") for name in ("train", "test")]
    if not all(path.exists() for path in paths):
        for table, path in zip(LOGS[log](folder), paths, strict=True):
            pq.write_table(table, path, row_group_size=1 << 16)
    return paths


def measure(log: str, name: str, using: str, seed: int, train: Path, test: Path) -> dict[str, object]:
    """Train a model in a warehouse of its own, and return its test AUC after each pass, and the mean within users; of several
    labels the last one's."""
    pairs = ", ".join(f"{one} AS {other}" for other, one in zip(*FIELDS[log], strict=True))
    found, began, label = [], time.process_time(), "long" if log == "kuairand-tasks" else "label"
    with xpsql.connect(train.with_name(f"warehouse-{log}"), reporter=SilentReporter()) as session:
        source = f"SELECT * FROM parquet.`{train}`"
        labels = label if label == "label" else "long IGNORE (click)" if "alone" in name else "click, long"
        settings = f"share = ({pairs}), seed = {seed}"
        session.sql(f"TRAIN OR REPLACE MODEL m USING {using} LABEL {labels} WITH ({settings}) AS {source}")
        for again in range(PASSES[log]):
            if again:
                session.sql(f"CONTINUE MODEL m AS {source}")
            predicted = f"ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{test}`))"
            scored = session.sql(f"SELECT user, {label} AS label, predicted_{label} AS score FROM {predicted}").arrow()
            users = np.unique(scored["user"].to_numpy(), return_inverse=True)[1]
            truth, scores = scored["label"].to_numpy(), scored["score"].to_numpy()
            found.append((auc(truth == 1, scores), gauc(users, truth, scores)))
    by_pass = dict(zip(("auc", "gauc"), zip(*found, strict=True), strict=True))
    return {"log": log, "model": name, "seed": seed, **by_pass, "seconds": time.process_time() - began}


def reported(results: Path) -> None:
    """Print the means over seeds."""
    found = defaultdict[tuple[str, str], list[tuple[list[float], float, list[float]]]](list)
    for line in results.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        found[one["log"], one["model"]].append((one["auc"], one["seconds"], one.get("gauc", [])))
    for (log, name), runs in found.items():
        auc = np.array([run[0] for run in runs])
        spread = " ".join(f"{mean:.4f}" for mean in auc.mean(axis=0)), auc.max(axis=1).std()
        print(
            f"{log:9} {name:26} {spread[0]}  best {auc.max(axis=1).mean():.4f} +- {spread[1]:.4f}, {len(runs)} seeds, ", end=""
        )
        within = " ".join(f"{mean:.4f}" for mean in np.mean([run[2] for run in runs], axis=0))
        print(f"{np.mean([run[1] for run in runs]):.0f} CPU seconds, within users {within}")


def main(folder: Path, results: Path, logs: list[str], seeds: int) -> None:
    results.touch()
    done = {
        (one["log"], one["model"], one["seed"]) for one in map(json.loads, results.read_text(encoding="utf-8").splitlines())
    }
    for seed in range(1, seeds + 1):
        for log in logs:
            train, test = rows_of(log, folder, results)
            for name, using in models(log).items():
                if (log, name, seed) not in done:
                    line = json.dumps(measure(log, name, using, seed, train, test))
                    with results.open("a", encoding="utf-8") as file:
                        file.write(line + "\n")
    reported(results)


if __name__ == "__main__":
    chosen = sys.argv[3].split(",") if len(sys.argv) > 3 else list(LOGS)
    main(Path(sys.argv[1]), Path(sys.argv[2]), chosen, int(sys.argv[4]) if len(sys.argv) > 4 else 3)
