"""Long histories, users as sequences, and what rows share computed once, beside FuxiCTR, RecTools, and our row-wise networks.

    python -m benchmarks.sequences [--only STEP ...] [--data FOLDER] [--quick] [--rows N]

Each step is a process of its own; its figures take the place of those that the results had of it. Speeds are by CPU seconds of
the second training of a process, whose programs are compiled. XPSQL_PEERS names the Python that has fuxictr 2.3.10 and rectools
0.19.0, which ask for other versions of what we use; by default this one. Without them the peers' figures are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from benchmarks import Figure, compact, histories, peers, retrieval
from benchmarks.process import call, child, connect, cores, measure, num_rows
from benchmarks.published import TAKEN
from benchmarks.sequence_logs import event_log, impressions, long_log, ordered_log, planted_log, taken_log
from benchmarks.sequence_peers import beside, times

RESULTS = Path(__file__).parent / "results" / "sequences.json"
SHAPE = "hidden = (128, 64), dim = 16"
SEARCHES = {
    "length = 50": "length = 50",
    "category": "length = 10000, search = 'category'",
    "product": "length = 10000, search = 'product'",
    "product, attends = 'product'": "length = 10000, search = 'product', attends = 'product'",
}
LENGTH = 50
ENCODER = "layers = 2, dim = 64, heads = 2"
TARGETS = {
    "planted, category: test AUC less the oracle's": ">= -0.005",
    "planted, product: test AUC less the oracle's": ">= -0.005",
    "long, product: rows a CPU second": ">= 6000",
    "long, product, users in runs: rows a CPU second": ">= 15000",
    "long, category: rows a CPU second": ">= 20000",
    "long, product: served, 100 candidates, CPU, p99": "<= 8",
    "long, category: served, 100 candidates, CPU, p99": "<= 4",
    "speed, retrieval, length 256: events a CPU second": ">= 60000",
    "speed, ranking, length 256: events a CPU second": ">= 35000",
    "speed, ranking, length 256: times din of 256 events": ">= 2.5",
    "next, games, sequence: recall@20, times two_tower's": ">= 1.1",
    "next, groceries, sequence: recall@20, times two_tower's": ">= 1.1",
    "speed, din, attends = 'product', length 256: times row by row by a network": ">= 7",
    "order, sequence: hits, part of what can be had": ">= 0.95",
    "shared, xnn, nested: times row by row": ">= 3.8",
    "shared, xnn with towers, nested: times xnn row by row": ">= 10",
}
TRAIN = "TRAIN OR REPLACE MODEL m USING {} WITH (workers = 1{}) AS SELECT {} FROM parquet.`{}`"

HISTORY = "CREATE HISTORY clicks AS SELECT {} FROM parquet.`{}` PARTITION BY user ORDER BY ts KEEP LAST 1000000"
CLICKS = "target = (item, category), history = (clicks.item, clicks.category)"
COLUMNS = "user, ts, item, category"


class Sizes(NamedTuple):
    """How many rows `long` has, from which others have theirs, and how many users `next` has at most."""

    rows: int
    users: int


def spent(session: Any, statement: str, times: int = 2) -> float:
    """Return the CPU seconds of a statement that has run before."""
    for _ in range(times):
        began = time.process_time()
        session.sql(statement)
    return time.process_time() - began


def planted(folder: Path, data: Path | None, sizes: Sizes, quick: bool) -> Iterator[Figure]:
    """Hold searches to a label that tells which kinds of items the user had 2,000 events ago, and never since."""
    events, log, best = planted_log(folder, 20 if quick else 200, 2_000 if quick else 20_000)
    yield Figure("planted, oracle: test AUC", best, "")
    with connect(folder / "warehouse") as session:
        session.sql(HISTORY.format(COLUMNS, events))
        columns = f"{COLUMNS}, click"
        for name, search in SEARCHES.items():
            chosen = "" if name == "length = 50" else ", recent = 4"
            small = f"{search}{chosen}, hidden = (8), attention = (8), dim = 16"
            using = f"din ({CLICKS}, {small}) LABEL click IGNORE (user)"
            session.sql(TRAIN.format(using, ", passes = 3", columns, log) + " WHERE NOT held")
            test = f"SELECT auc FROM ML.EVALUATE(MODEL m, (SELECT {columns} FROM parquet.`{log}` WHERE held))"
            auc = float(session.sql(test).arrow()["auc"][0].as_py())
            yield Figure(f"planted, {name}: test AUC", auc, "")
            if name != "length = 50":
                yield Figure(f"planted, {name}: test AUC less the oracle's", auc - best, "")


def trained_long(folder: str, name: str, search: str, order: str, length: int) -> Iterator[Figure]:
    """Train over long histories; yield rows a CPU second, and the CPU of the service for a user and 100 candidates."""
    log = Path(folder) / f"{order}.parquet"
    what = f"long, {name}" + (", users in runs" if order == "runs" else "")
    using = f"din ({CLICKS}, {search}, {SHAPE}) LABEL click"
    with connect(Path(folder) / "warehouse") as session:
        took = spent(session, TRAIN.format(using, "", "*", log))
        yield Figure(f"{what}: rows a CPU second", num_rows(log) / took, "rows/s")
        if order == "alone":
            yield from served(session, what, length)


def served(session: Any, what: str, length: int) -> Iterator[Figure]:
    """Yield what a service takes for requests of a user and 100 candidates."""
    import traceback

    from xpsql.platform.serving.http import Service
    from xpsql.platform.serving.refusal import RequestLimits
    from xpsql.platform.serving.served import Served

    limits = RequestLimits()
    service = Service(Served(session.models, ["m"], None, print), limits, None, None, traceback.print_exc, lambda *asked: asked)
    taken = []
    for number in range(220):
        item = [(7 * number + 3 * n) % 50_000 for n in range(100)]
        candidates = [{"item": str(one), "category": str(one % 500)} for one in item]
        body = json.dumps({"context": {"user": number % 10, "ts": length}, "candidates": candidates}).encode()
        began = time.process_time()
        if service.handle("POST", "/v1/models/m:predict", {}, body).status != 200:
            raise RuntimeError(f"{what}: the service refuses a request")
        taken.append(1e3 * (time.process_time() - began))
    for part in (50, 99):
        yield Figure(f"{what}: served, 100 candidates, CPU, p{part}", float(np.percentile(taken[20:], part)), "ms")


def long(folder: Path, data: Path | None, sizes: Sizes, quick: bool) -> Iterator[Figure]:
    """Measure searches of 10,000 events a user beside FuxiCTR's networks for long histories."""
    users, length = max(10, sizes.rows // 50), 300 if quick else 10_000
    measure(call(long_log, folder, users, length, sizes.rows))
    yield Figure("long: users", users, "")
    yield Figure("long: events of a user", length, "")
    with connect(folder / "warehouse") as session:
        session.sql(HISTORY.format(COLUMNS, folder / "events.parquet"))
        image = sum(
            path.stat().st_size for path in (folder / "warehouse").rglob("*") if path.is_file() and "event" in str(path)
        )
    yield Figure("long: event image and its files", image / 2**20, "MiB")
    speeds = {}
    for name, search in SEARCHES.items():
        for order in ("alone",) if name == "length = 50" else ("alone", "runs"):
            found, used = child(trained_long, folder, name, search, order, length)
            yield from (Figure(*one) for one in found)
            if order == "alone":
                speeds[name] = found[0][1]
                yield Figure(f"long, {name}: peak memory of the process", used.peak_bytes / 2**20, "MiB")
    for kind in ("SIM", "ETA", "SDIM", "TWIN"):
        theirs = beside("fuxictr", kind, folder, length, 64 if quick else 256)
        yield from times("long, product, rows a CPU second", speeds["product"], kind, theirs, "rows/s", "FuxiCTR 2.3.10")


def trained_events(folder: str, length: int, log: str) -> Iterator[Figure]:
    """Yield events a CPU second of sequence, and rows a CPU second of din over as many events."""
    count, what = num_rows(Path(log)), f"length {length}"
    retrieval = f"sequence (length = {length}, {ENCODER}{{}}) IGNORE (click, clicked) GROUP user TIME ts"
    ranking = f"sequence (actions = clicked, length = {length}, {ENCODER}) LABEL click GROUP user TIME ts"
    din = f"din (target = (item), history = (clicks.item), length = {length}, {SHAPE}{{}}) LABEL click IGNORE (clicked)"
    kinds = {
        "retrieval": retrieval.format(", encoder = 'sasrec', negatives = 128"),
        "retrieval, hstu": retrieval.format(", encoder = 'hstu', negatives = 128"),
        "retrieval, negatives = 2048": retrieval.format(""),
        "ranking": ranking,
        "din": din.format(""),
        "din, attends = 'product'": din.format(", attends = 'product'"),
        "din, row by row": din.format(""),
    }
    rates = {}
    with connect(Path(folder) / f"events{length}") as session:
        session.sql(HISTORY.format("user, ts, item", log))
        for name, using in kinds.items():
            more = ", batch_size = 4096" + (", compact = 'off'" if name == "din, row by row" else "")
            rates[name] = count / spent(session, TRAIN.format(using, more, "*", log))
            yield Figure(f"speed, {name}, {what}: events a CPU second", rates[name], "rows/s")
    products = rates["din, attends = 'product'"] / rates["din, row by row"]
    yield Figure(f"speed, din, attends = 'product', {what}: times row by row by a network", products, "x")
    yield Figure(f"speed, ranking, {what}: times din of {length} events", rates["ranking"] / rates["din"], "x")


def speed(folder: Path, data: Path | None, sizes: Sizes, quick: bool) -> Iterator[Figure]:
    """Measure sequence beside RecTools' encoders of the same sizes, and our own din."""
    for length in (16,) if quick else (64, 256):
        log = event_log(folder / f"events{length}.parquet", max(4, 4 * sizes.rows // length), length)
        found = child(trained_events, folder, length, log)[0]
        yield from (Figure(*one) for one in found)
        rates = {"SASRecModel": found[0][1], "HSTUModel": found[1][1]}
        for kind, ours in rates.items():
            theirs = beside("rectools", kind, log, length, 1, 128, None)
            what = f"speed, retrieval, length {length}, events a CPU second"
            yield from times(what, ours, kind, theirs, "rows/s", "RecTools 0.19.0")


def next_items(folder: Path, data: Path | None, sizes: Sizes, quick: bool) -> Iterator[Figure]:
    """Find the last item of each user among all, beside two_tower and RecTools' encoders."""
    for log in ("made",) if data is None else ("games", "groceries"):
        own = folder / log
        own.mkdir()
        known = retrieval.users_of(retrieval.made(500) if data is None else TAKEN[log](data))
        known = known._replace(histories=known.histories[: sizes.users], last=known.last[: sizes.users])
        retrieval.write_rows(known, own)
        taken_log(known, own)
        (ours,) = child(found_next, own)[0]
        (tower, *_), _ = child(retrieval.learned, log, "two_tower", own)
        yield Figure(f"next, {log}, sequence: recall@20", ours["recall"], "")
        yield Figure(f"next, {log}, sequence: CPU", ours["cpu"], "s")
        yield Figure(f"next, {log}, two_tower: recall@20", tower[1], "")
        yield Figure(f"next, {log}, sequence: recall@20, times two_tower's", ours["recall"] / tower[1], "x")
        for kind in ("SASRecModel", "HSTUModel"):
            theirs = beside("rectools", kind, own / "events.parquet", LENGTH, 2 if quick else 10, 128, own / "all.parquet")
            if theirs is not None:
                yield Figure(f"next, {log}, {kind}: recall@20", theirs["recall"], "", "", "RecTools 0.19.0")
                yield Figure(f"next, {log}, {kind}: CPU", theirs["cpu"], "s", "", "RecTools 0.19.0")


def found_next(folder: str, more: str = "", passes: int = 10) -> Iterator[dict[str, float]]:
    """Yield what sequence finds of last items, and its CPU seconds."""
    log, every = (f"parquet.`{folder}/{name}.parquet`" for name in ("events", "all"))
    with connect(Path(folder) / "warehouse") as session:
        using = f"sequence (length = {LENGTH}{more}) GROUP user TIME ts"
        took = spent(session, TRAIN.format(using, f", passes = {passes}", "*", f"{folder}/events.parquet"), 1)
        items = f"ITEMS (SELECT DISTINCT item FROM {log})"
        query = f"SELECT recall FROM ML.EVALUATE(MODEL m, (SELECT * FROM {every}), {items}, 20, EXCLUDE item)"
        yield {"recall": session.sql(query).arrow()["recall"][0].as_py(), "cpu": took}


def order(folder: Path, data: Path | None, sizes: Sizes, quick: bool) -> Iterator[Figure]:
    """Learn the next of two, in order; and on KuaiRand, in order of time, what is clicked, beside din."""
    log = folder / "log.parquet"
    best = ordered_log(log, 200 if quick else 4_000, 20, 12)
    with connect(folder / "warehouse") as session:
        using = "sequence (dim = 32, length = 20, dropout = 0) GROUP user TIME ts"
        session.sql(TRAIN.format(using, ", passes = 8, batch_size = 512", "*", log) + " WHERE ts < 19")
        items = f"ITEMS (SELECT DISTINCT item FROM parquet.`{log}`)"
        found = session.sql(f"SELECT recall FROM ML.EVALUATE(MODEL m, (SELECT * FROM parquet.`{log}`), {items}, 1)")
        hits = found.arrow()["recall"][0].as_py()
    yield Figure("order, sequence: hits of the next item", hits, "")
    yield Figure("order, sequence: hits, part of what can be had", hits / best, "")
    if data is not None:
        impressions(data, folder / "kuairand.parquet")
        for number, auc in enumerate(child(ranked, folder)[0][0]["auc"], 1):
            yield Figure(f"order, KuaiRand, sequence: test AUC after pass {number}", auc, "")
        for table, name in zip(histories.kuairand(data), ("train", "test"), strict=True):
            pq.write_table(table, folder / f"{name}.parquet", row_group_size=1 << 16)
        for number, auc in enumerate(child(histories.learned, histories.MODELS["din"], 1, folder)[0][0]["auc"], 1):
            yield Figure(f"order, KuaiRand, din: test AUC after pass {number}", auc, "")


def ranked(folder: str, more: str = "length = 64") -> Iterator[dict[str, list[float]]]:
    """Yield the AUC of sequence on the last fifth of KuaiRand after each of two passes, seen with what came before."""
    log, found = f"{folder}/kuairand.parquet", []
    with connect(Path(folder) / "ranked") as session:
        using = f"sequence (item = video, actions = clicked, {more}) LABEL click GROUP user TIME ts"
        for passes in (1, 2):
            session.sql(TRAIN.format(using, f", passes = {passes}", "* EXCEPT (held)", log) + " WHERE NOT held")
            query = f"SELECT click, held, predicted_click FROM ML.PREDICT(MODEL m, (SELECT * FROM parquet.`{log}`)) WHERE held"
            rows = session.sql(query).arrow()
            found.append(peers.auc(rows["click"].to_numpy() == 1, rows["predicted_click"].to_numpy()))
    yield {"auc": found}


def shared(folder: Path, data: Path | None, sizes: Sizes, quick: bool) -> Iterator[Figure]:
    """Measure nested rows and towers beside flat rows, and din over 256 events by products."""
    flat, nested = folder / "flat.parquet", folder / "nested.parquet"
    measure(call(compact.write, nested, flat, max(4, sizes.rows // 20), 100))
    of_user = ", ".join(f"u{i}" for i in range(compact.OF_USER))
    towers = f"xnn (user = ({of_user}, clicked), user_tower = (128, 64), item_tower = (64), hidden = (64)) LABEL click"
    one, inline = "xnn LABEL click", "* EXCEPT (candidates), inline(candidates)"
    work = {
        "xnn, row by row": TRAIN.format(one, ", compact = 'off'", "*", flat),
        "xnn, grouped": TRAIN.format(one, "", "*", flat),
        "xnn, nested": TRAIN.format(one, "", inline, nested),
        "xnn with towers, nested": TRAIN.format(towers, "", inline, nested),
    }
    yield from child(in_one, folder, work)[0]


def in_one(folder: str, work: dict[str, str]) -> Iterator[Figure]:
    """Run statements in turns in this process; yield their CPU seconds, and times the first."""
    with connect(Path(folder) / "shared") as session:
        taken = {name: spent(session, statement) for name, statement in work.items()}
    first, base = next(iter(taken)), next(iter(taken.values()))
    for name, took in taken.items():
        yield Figure(f"shared, {name}: CPU", took, "s")
        if name != first:
            yield Figure(f"shared, {name}: times {'' if name.startswith('xnn, ') else 'xnn '}row by row", base / took, "x")


STEPS: dict[str, Callable[[Path, Path | None, Sizes, bool], Iterator[Figure]]] = {
    "planted": planted,
    "long": long,
    "speed": speed,
    "next": next_items,
    "order": order,
    "shared": shared,
}


def run_step(step: str, data: str | None, sizes: tuple[int, int], quick: bool) -> Iterator[Figure]:
    """Run a step in this process."""
    with tempfile.TemporaryDirectory(prefix="xpsql-sequences-") as folder:
        yield from STEPS[step](Path(folder), None if data is None else Path(data), Sizes(*sizes), quick)


def write(path: Path, step: str, found: list[Figure], command: str) -> None:
    """Write the figures of a step, beside those that are there of the others."""
    from benchmarks.__main__ import document

    made = document(path.stem, found, command)
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": []}
    others = [{"date": before["date"], **row} for row in before["rows"] if not re.match(rf"{step}\b", row["what"])]
    path.write_text(json.dumps({**made, "rows": [*others, *made["rows"]]}, indent=1) + "\n", encoding="utf-8")  # type: ignore[misc]


def main(arguments: list[str] | None = None) -> None:
    """Run the steps asked for, and print and write their figures."""
    parser = argparse.ArgumentParser("benchmarks.sequences", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(STEPS), default=tuple(STEPS), metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--quick", action="store_true", help="few rows: shows that the benchmark works; writes nothing")
    parser.add_argument("--data", type=Path, help="a folder of published logs, see benchmarks/published.py")
    parser.add_argument("--rows", type=int, default=100_000, help="of long; four times as many of speed, five of shared")
    parser.add_argument("--users", type=int, default=1_000_000, help="of next, at most")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the figures go, as JSON")
    given = parser.parse_args(arguments)
    sizes = (400, 500) if given.quick else (given.rows, given.users)
    data = "" if given.data is None else " --data FOLDER"
    command = f"python -m benchmarks.sequences{data} --rows {given.rows} --users {given.users}"
    for name in given.only:
        print(f"\n{name}", flush=True)
        found = []
        with cores(1):
            rows = child(run_step, name, given.data, sizes, given.quick)[0]
        for figure in (Figure(*one) for one in rows):
            target = "" if given.quick else figure.target or TARGETS.get(figure.what, "")
            found.append(figure._replace(target=target))
            print(found[-1].line(), flush=True)
        if not given.quick:
            write(given.out, name, found, command)


if __name__ == "__main__":
    from benchmarks.sequences import main as program  # whose functions other processes find

    program()
