"""Compare what EXPLAIN TRAIN says that a training takes with what it takes, for every algorithm, on one log.

    python -m benchmarks.estimates [wall] LOG.parquet [ALGORITHM ...]

LOG is of benchmarks/log.py; 200,000 rows say enough. EXPLAIN TRAIN and TRAIN run in processes of their own on one core, each
after an EXPLAIN FAST, which loads modules. EXPLAIN runs twice: the first time it compiles what nobody has compiled before.
Clocks count CPU seconds, so that other work of the machine does not matter; `wall` takes wall time. Memory is the process's
peak. Each `ratio` is what is said over what it took; FAST is the ratio of the seconds that EXPLAIN FAST says.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.process import Measured, cores, measure

NETWORK = Path(__file__).parents[1] / "examples" / "networks" / "dcn_jax.py"
HISTORY = "array(C14, C15, C16, C17, C18, C19, C20, C21, C22, C23) AS history"


class Use(NamedTuple):
    """The options of an algorithm, its clauses, and what it learns from."""

    options: str = ""
    clauses: str = "LABEL label IGNORE (ts)"
    columns: str = "*"


OF_HISTORY = Use("(target = (C26), history = (history))", columns=f"*, {HISTORY}")
PAIRS = "LABEL label WITH (share = (history AS item))"
USES = {
    **dict.fromkeys(("xftrl", "logistic_regression", "linear_regression", "svm", "owlqn", "fm", "ffm"), Use()),
    **dict.fromkeys(("xnn", "wide_deep", "deepfm", "dcn", "xgboost"), Use()),
    "multi_task": Use(clauses="LABEL label, second IGNORE (ts)", columns="*, IF(I1 > 3, 1, 0) AS second"),
    **dict.fromkeys(("din", "dien"), OF_HISTORY),
    "network": Use(f"(file = '{NETWORK}')"),
    "xsvd": Use("(user = (C25), item = (C26), feedback = (history))", "LABEL label", f"label, C25, C26, {HISTORY}"),
    "slrm": Use("(item = item)", PAIRS, f"1 AS label, C24 AS item, {HISTORY}"),
    "two_tower": Use("(query = (C20, C21, history), item = (C24, I1))", "", f"C20, C21, C24, I1, {HISTORY}"),
    "tdm": Use("(item = (C15, C10), history = (history))", "", f"C15, C10, C20, {HISTORY}"),
    "word2vec": Use("", "", HISTORY),
}


class Run(NamedTuple):
    """What a statement says and takes.

    Attributes:
        seconds: by the clock of its process.
        rows: its result.
    """

    seconds: float
    rows: list[dict[str, object]]

    def said(self, name: str) -> list[float]:
        """Return the numbers in what an EXPLAIN says about something."""
        (text,) = (str(row["value"]) for row in self.rows if row["property"] == name)
        return [float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def run(statements: Sequence[str], warehouse: Path, clock: str) -> tuple[list[Run], Measured]:
    """Run statements in a process of their own, on one core."""
    command = [sys.executable, "-m", "benchmarks.estimates", clock, "--statements", str(warehouse), *statements]
    with cores(1):
        measured = measure(command)
    return [Run(*json.loads(line)) for line in measured.output.splitlines()], measured


def run_here(warehouse: str, statements: Sequence[str], clock: str) -> None:
    """Run statements, and print for each the seconds that it took and what it says."""
    if clock == "cpu":
        time.perf_counter = time.process_time  # of xpsql, too, which looks it up when it measures
    from xpsql import connect
    from xpsql.platform.progress import SilentReporter

    with connect(warehouse, reporter=SilentReporter()) as session:
        for statement in statements:
            began = time.perf_counter()
            rows = session.sql(statement).arrow().to_pylist()
            print(json.dumps([time.perf_counter() - began, rows], default=str))


def line(name: str, log: str, folder: Path, clock: str) -> str:
    """Measure an algorithm and return its line of the table."""
    use = USES[name]
    of = f"TRAIN MODEL {name} USING {name} {use.options} {use.clauses} AS SELECT {use.columns} FROM parquet.`{log}`"
    (fast, explained, again), _ = run((f"EXPLAIN FAST {of}", f"EXPLAIN {of}", f"EXPLAIN {of}"), folder, clock)
    (_, trained), measured = run((f"EXPLAIN FAST {of}", of), folder, clock)
    features = float(str(trained.rows[0]["features"]))
    pairs = (
        (explained.said("estimated time")[0], trained.seconds, ".2f"),
        (explained.said("process memory")[0], measured.peak_bytes / 2**20, ".0f"),
        (explained.said("estimated memory")[1], features, ",.0f"),
    )
    told = " | ".join(f"{said:{digits}}; {took:{digits}} | {said / took:.2f}" for said, took, digits in pairs)
    ratio = fast.said("estimated time")[0] / trained.seconds
    return f"| `{name}` | {told} | {explained.seconds:.2f}, {again.seconds:.2f} | {ratio:.2f} |"


def main(log: str, names: Sequence[str], clock: str) -> None:
    """Print the table."""
    print(
        "| algorithm | seconds: said; took | ratio | MiB: said; took | ratio | features: said; found | ratio | EXPLAIN | FAST |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names or USES:
        with tempfile.TemporaryDirectory() as folder:
            print(line(name, log, Path(folder), clock), flush=True)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument not in ("cpu", "wall")]
    by = "wall" if "wall" in sys.argv else "cpu"
    if arguments[0] == "--statements":
        run_here(arguments[1], arguments[2:], by)
    else:
        main(arguments[0], arguments[1:], by)
