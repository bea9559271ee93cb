"""USING auto beside the defaults of xftrl, the best of our models by hand, LightGBM and flaml; and on made logs.

    python -m benchmarks.auto [--only STEP ...] [--data FOLDER] [--seconds N] [--folder FOLDER] [--quick]

A step is a published log, `noise`, `told` or `planted`. On a log all learn on one core, each search for as many CPU seconds;
what they predict of later rows is compared in pairs. Figures are written as they come, and take the place of those that the
results had of the step. What a --folder has of an earlier run is not made again.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import Figure, spread
from benchmarks.auto_made import FEATURES, TRAIN, on_made, predicted, searched
from benchmarks.auto_peers import flaml, lightgbm
from benchmarks.process import child, connect, cores, installed
from benchmarks.published import LOGS, hillstrom, talkingdata
from benchmarks.sequences import write

RESULTS = Path(__file__).parent / "results" / "auto.json"
SEARCHED = {**LOGS, "talkingdata": talkingdata, "hillstrom": hillstrom}
DEFAULT, AUTO = "xftrl", "auto"
PEERS: Mapping[str, Callable[[float, str], Iterator[Any]]] = {"LightGBM": lightgbm, "flaml": flaml}
PASSES = "WITH (passes = 6, patience = 1)"
BY_HAND: Mapping[str, tuple[str, str]] = {
    DEFAULT: ("xftrl", ""),
    "xftrl, passes": ("xftrl", PASSES),
    "xftrl, rates": ("xftrl", "OPERATORS (auto_session)"),
    "fm": ("fm", ""),
    "fm, passes": ("fm (alpha = 0.1, vector_alpha = 0.05)", PASSES),
    "ffm": ("ffm", ""),
    "ffm (alpha = 0.1)": ("ffm (alpha = 0.1, vector_alpha = 0.05)", ""),
    "xnn": ("xnn", ""),
    "xnn, passes": ("xnn (learning_rate = 0.0005)", PASSES),
    "xnn, rates": ("xnn", "OPERATORS (auto_session)"),
    "dcn": ("dcn", ""),
    "owlqn": ("owlqn", ""),
    "xgboost": ("xgboost", ""),
    "xgboost (300 rounds)": ("xgboost (rounds = 300, learning_rate = 0.05, max_depth = 6)", ""),
}
OF_HISTORY: Mapping[str, tuple[str, str]] = {
    "din": ("din (target = (video), history = (seen))", "WITH (share = (seen AS video))"),
    "din, rates": ("din (target = (video), history = (seen))", "OPERATORS (auto_session) WITH (share = (seen AS video))"),
}


def on_log(name: str, data: Path | None, folder: Path, seconds: float) -> Iterator[list[Figure]]:
    """Learn a published log by all, one after the other; yield what can be compared each time."""
    folder.mkdir(exist_ok=True)
    for part, table in zip(("train", "test"), SEARCHED[name](data or Path()), strict=True):
        pq.write_table(in_order(table, name), folder / f"{part}.parquet", row_group_size=1 << 16)
    peers = {peer: function for peer, function in PEERS.items() if installed(peer.lower())}
    work = {AUTO: (auto, seconds), DEFAULT: (by_hand, 0), **{peer: (function, seconds) for peer, function in peers.items()}}
    for made, (function, given) in work.items():
        if not (folder / f"{made}.json").exists():
            with cores(1):
                (folder / f"{made}.json").write_text(json.dumps(child(function, given, folder)[0], indent=1), encoding="utf-8")
        yield [*compared(name, folder)]


def in_order(table: pa.Table, name: str) -> pa.Table:
    """Return a log with the place of each row as its time, where rows are in order of time."""
    if name in ("criteo", "hillstrom") or "ts" in table.column_names:
        return table
    return table.append_column("ts", pa.array(np.arange(table.num_rows) * 1_000_000, pa.timestamp("us", "UTC")))


def auto(seconds: float, folder: str) -> Iterator[dict[str, Any]]:
    """Search for as many CPU seconds, and keep what the version predicts."""
    found = searched(Path(folder), "auto", f"'{seconds} seconds'")
    np.save(Path(folder) / f"{AUTO}.npy", found.scores)
    yield {**found._asdict(), "scores": None, "trials": [str(one) for one in found.trials]}


def by_hand(_: float, folder: str) -> Iterator[dict[str, Any]]:
    """Train the models that an expert would try, and keep what they predict."""
    names = pq.read_schema(Path(folder) / "train.parquet").names
    time_of, held = ("TIME ts", "VALIDATE ON LAST 0.1") if "ts" in names else ("", "VALIDATE ON 0.1")
    arrays = "IGNORE (seen)" if "seen" in names else ""
    with connect(Path(folder) / "warehouse") as session:
        for name, (using, clauses) in {**BY_HAND, **(OF_HISTORY if "seen" in names else {})}.items():
            began, more = (
                time.process_time(),
                (time_of, held * ("passes" in clauses), arrays * using.startswith("xgb"), clauses),
            )
            session.sql(TRAIN.format("m", using, " ".join(more), folder))
            np.save(Path(folder) / f"{name}.npy", predicted(session, "m", Path(folder)))
            yield {"name": name, "seconds": time.process_time() - began}


def compared(name: str, folder: Path) -> Iterator[Figure]:
    """Yield the AUC of all, and by how much the search is better than the others, in pairs."""
    from xpsql.platform.training.tuning.paired import Gain, JudgedRows, gain_of, neighbours

    labels = pq.read_table(folder / "test.parquet", columns=["label"])["label"].to_numpy().astype(np.float32)
    rows = {path.stem: JudgedRows(labels, np.load(path)[None], "classes") for path in sorted(folder.glob("*.npy"))}

    def gain(one: str, other: str | None) -> Gain:
        return gain_of("auc", rows[one], None if other is None else rows[other], neighbours(len(labels)))

    scores = {one: gain(one, None) for one in rows}
    for one, found in scores.items():
        yield figure(f"{name}, {one}: test AUC", found.gain, found.half, one if one in PEERS else "")
    (told,) = json.loads((folder / f"{AUTO}.json").read_text(encoding="utf-8"))
    yield figure(f"{name}, {AUTO}: AUC told", told["told"], told["half"])
    yield Figure(f"{name}, {AUTO}: CPU", told["seconds"], "s")
    ours = [one for one in rows if one in BY_HAND or one in OF_HISTORY]
    others = {peer: peer for peer in PEERS if peer in rows}
    if ours:
        best = max(ours, key=lambda one: scores[one].gain)
        others = {f"{DEFAULT}'s defaults": DEFAULT, "the best by hand": best, **others}
    for what, other in others.items():
        found = gain(AUTO, other)
        yield figure(f"{name}, {AUTO}: gain over {what}", found.gain, found.half, other if other in PEERS else "")
        if other not in PEERS:
            yield Figure(f"{name}, {AUTO}: gain over {what}, at most", found.gain + found.half, "", ">= 0")


def figure(what: str, value: float, half: float, peer: str = "") -> Figure:
    """Return a figure with its interval of 95 %."""
    return Figure(what, value, "", "", peer, value - half, value + half)


def on_logs(count: int, folder: Path, *made: object) -> list[dict[str, Any]]:
    """Search made logs of so many seeds, each in a process of its own."""
    found: list[dict[str, Any]] = []
    for seed in range(count):
        path = folder / f"{seed}.json"
        if not path.exists():
            own = folder / "log"
            own.mkdir(exist_ok=True)
            with cores(1):
                path.write_text(json.dumps(child(on_made, own, seed, *made)[0][0]), encoding="utf-8")
        found.append(json.loads(path.read_text(encoding="utf-8")))
    return found


def noise(folder: Path, quick: bool) -> Iterator[Figure]:
    """Search labels that nothing tells."""
    count, rows = (1, 2_000) if quick else (20, 8_000)
    found = on_logs(count, folder, rows, 0, 10, "8 TRIALS")
    covered = [abs(one["told"] - 0.5) <= one["half"] for one in found]
    yield Figure(
        "noise: statements without crosses, of all", float(np.mean(["CROSS" not in one["statement"] for one in found])), ""
    )
    yield Figure("noise: intervals told that have 0.5, of all", float(np.mean(covered)), "", ">= 0.9")
    yield spread("noise: AUC told", [one["told"] for one in found], "")


def told(folder: Path, quick: bool) -> Iterator[Figure]:
    """Compare the interval that is told with the AUC of later rows."""
    count, rows = (1, 2_000) if quick else (40, 8_000)
    found = on_logs(count, folder, rows, 1, 10, "15 SECONDS")
    hits = [abs(one["told"] - one["later"]) <= one["half"] for one in found]
    yield Figure("told: intervals that have the AUC of later rows, of all", float(np.mean(hits)), "", ">= 0.9")
    yield spread("told: half of an interval", [one["half"] for one in found], "")
    yield Figure("told: AUC less that of later rows, mean", float(np.mean([one["told"] - one["later"] for one in found])), "")
    yield spread("told: CPU of a search", [one["seconds"] for one in found], "s", target="<= 15.75")


def planted(folder: Path, quick: bool) -> Iterator[Figure]:
    """Search logs with three pairs that tell the label together, among 40 columns."""
    count, rows = (1, 8_000) if quick else (3, 40_000)
    wanted, found = {"s0 * s1", "s2 * s3", "s4 * s5"}, on_logs(count, folder, rows, 3, FEATURES, "4 TRIALS")
    crosses = [set(re.findall(r"s\d+(?: \* s\d+)+", one["statement"])) for one in found]
    right, others = [float(len(one & wanted)) for one in crosses], [float(len(one - wanted)) for one in crosses]
    yield spread("planted: crosses of 3 that are in the statement", right, "", target=">= 3")
    yield spread("planted: other crosses in the statement", others, "", target="<= 2")


MADE: Mapping[str, Callable[[Path, bool], Iterator[Figure]]] = {"noise": noise, "told": told, "planted": planted}


def main(arguments: list[str] | None = None) -> None:
    """Run the steps asked for, and print and write their figures."""
    parser = argparse.ArgumentParser("benchmarks.auto", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names = (*SEARCHED, *MADE)
    parser.add_argument("--only", nargs="+", choices=names, metavar="STEP", help=", ".join(names))
    parser.add_argument("--data", type=Path, help="a folder of published logs, see benchmarks/published.py; else flights alone")
    parser.add_argument("--seconds", type=float, default=120, help="of each search")
    parser.add_argument("--folder", type=Path, help="for logs and predictions, which a later run finds there")
    parser.add_argument("--quick", action="store_true", help="few rows: shows that the benchmark works; writes nothing")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the figures go, as JSON")
    given = parser.parse_args(arguments)
    logs = () if given.quick else ("flights",) if given.data is None else tuple(SEARCHED)
    with tempfile.TemporaryDirectory(prefix="xpsql-auto-") as temporary:
        folder = given.folder or Path(temporary)
        for step in given.only or (*logs, *MADE):
            run(step, given, folder / step)


def run(step: str, given: argparse.Namespace, folder: Path) -> None:
    """Run a step, and write its figures so far whenever there are more."""
    print(f"\n{step}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    data = "" if given.data is None else " --data FOLDER"
    command = f"python -m benchmarks.auto{data} --seconds {given.seconds:g}"
    steps = on_log(step, given.data, folder, given.seconds) if step in SEARCHED else [[*MADE[step](folder, given.quick)]]
    found: list[Figure] = []
    for found in steps:
        if not given.quick:
            write(given.out, step, found, command)
    for one in found:
        print((one._replace(target="") if given.quick else one).line(), flush=True)


if __name__ == "__main__":
    from benchmarks.auto import main as program  # whose functions other processes find

    program()
