"""What EXPLAIN TRAIN says that a training takes, as a part of what it takes: CPU seconds, peak memory and features.

EXPLAIN and TRAIN run on the made log's 200,000 test rows in processes of their own on one core, each after an EXPLAIN FAST,
which loads modules, and after another process has compiled the programs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import Figure, Run
from benchmarks.process import child, connect, cores

NETWORK = Path(__file__).parents[1] / "examples" / "networks" / "dcn_jax.py"
HISTORY = "array(C14, C15, C16, C17, C18, C19, C20, C21, C22, C23) AS history"


LABEL, SHARED = "LABEL label IGNORE (ts)", "WITH (share = (history AS item))"
PLAIN = ("xftrl", "logistic_regression", "linear_regression", "svm", "owlqn", "fm", "ffm")
# The options of each algorithm, its clauses, and the columns that it learns from.
USES = {
    **dict.fromkeys((*PLAIN, "xnn", "wide_deep", "deepfm", "dcn", "xgboost"), ("", LABEL, "*")),
    "multi_task": ("", "LABEL label, second IGNORE (ts)", "*, IF(I1 > 3, 1, 0) AS second"),
    **dict.fromkeys(("din", "dien"), ("(target = (C26), history = (history))", LABEL, f"*, {HISTORY}")),
    "network": (f"(file = '{NETWORK}')", LABEL, "*"),
    "xsvd": ("(user = (C25), item = (C26), feedback = (history))", "LABEL label", f"label, C25, C26, {HISTORY}"),
    "slrm": ("(item = item)", f"LABEL label {SHARED}", f"1 AS label, C24 AS item, {HISTORY}"),
    "two_tower": ("(query = (C20, C21, history), item = (C24, I1))", "", f"C20, C21, C24, I1, {HISTORY}"),
    "tdm": ("(item = (C15, C10), history = (history))", "", f"C15, C10, C20, {HISTORY}"),
    "word2vec": ("", "", HISTORY),
}
TARGETS = {
    f"{name}: {what}, said over taken": bound for name in USES for what, bound in (("seconds", ">= 0.5"), ("memory", ">= 0.5"))
}


def figures(run: Run) -> Iterator[Figure]:
    for name in ("xftrl", "xnn") if run.quick else USES:
        options, clauses, columns = USES[name]
        rows = f"SELECT {columns} FROM parquet.`{run.log}/test.parquet`"
        of = f"TRAIN MODEL m USING {name} {options} {clauses} AS {rows}"
        with cores(1):
            child(ran, run.folder / name, [f"EXPLAIN {of}"])  # programs are compiled once, and kept
            (_, explained), _ = child(ran, run.folder / name, [f"EXPLAIN FAST {of}", f"EXPLAIN {of}"])
            (_, trained), whole = child(ran, run.folder / name, [f"EXPLAIN FAST {of}", of])
        told_of = {str(row.get("property")): str(row.get("value")) for row in explained["rows"]}
        taken = {
            "seconds": (said(told_of["time"])[0], trained["seconds"], "s"),
            "memory": (said(told_of["memory"])[0], whole.peak_bytes / 2**20, "MiB"),
            "features": (said(told_of["stored"])[0], float(trained["rows"][0]["features"]), ""),
        }
        for what, (told, took, unit) in taken.items():
            yield Figure(f"{name}: {what}, said", told, unit)
            yield Figure(f"{name}: {what}, taken", took, unit)
            yield Figure(f"{name}: {what}, said over taken", told / took, "x")
        yield Figure(f"{name}: EXPLAIN", explained["seconds"], "s")


def said(text: str) -> list[float]:
    """Return the numbers of a text."""
    return [float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def ran(warehouse: str, statements: list[str]) -> Iterator[dict[str, Any]]:
    """Run statements; yield the CPU seconds of each and its rows."""
    time.perf_counter = time.process_time  # xpsql looks it up when it measures
    with connect(warehouse) as session:
        for statement in statements:
            began = time.perf_counter()
            rows = session.sql(statement).arrow().to_pylist()
            seconds = time.perf_counter() - began
            yield {"seconds": seconds, "rows": [{name: str(value) for name, value in row.items()} for row in rows]}
