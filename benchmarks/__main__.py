"""Measure groups of benchmarks, print their figures, and write them as JSON.

python -m benchmarks [--only GROUP ...] [--quick] [--json] [--rows N]
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks import GROUPS, Figure, Run, number
from benchmarks.log import made
from benchmarks.process import call, measure, num_cores

RESULTS = Path(__file__).parent / "results"
ROWS, QUICK_ROWS = 1_000_000, 20_000
PACKAGES = (
    *("jax", "duckdb", "pyarrow", "numpy", "pyspark", "vowpalwabbit", "torch", "deepctr-torch", "fbgemm-gpu-cpu", "xgboost"),
    *("lightgbm", "flaml"),
)


def machine() -> dict[str, object]:
    """Describe this machine and how busy it is."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": num_cores(),
        "load": round(os.getloadavg()[0], 1),
        "os": platform.platform(terse=True),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter, where they are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def document(group: str, figures: Iterable[Figure], command: str) -> dict[str, object]:
    """Return a group's results in the shape of benchmarks/results."""
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=RESULTS.parent, capture_output=True, text=True)
    rows = [{**figure._asdict(), "value": float(number(figure.value).replace(",", ""))} for figure in figures]
    return {
        "group": group,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit.stdout.strip(),
        "machine": machine(),
        "command": command,
        "versions": versions(),
        "rows": rows,
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--quick", action="store_true", help="few rows, once, no targets: shows that the benchmark works")
    parser.add_argument("--json", action="store_true", help="write benchmarks/results/GROUP.json")
    parser.add_argument("--rows", type=int, default=ROWS, help="of the made log's training part, a fifth of them for tests")
    parser.add_argument("--log", type=Path, help="a log that `python -m benchmarks.log` has made")
    parser.add_argument("--data", type=Path, help="a folder of published logs, see benchmarks/published.py")
    parser.add_argument("--rounds", type=int, default=3, help="runs in turns, whose medians count")
    given = parser.parse_args(arguments)
    if given.quick and given.json:
        parser.error("--json writes results, and a quick run has none: leave out one of --quick and --json")
    return given


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the groups asked for and print their figures as they come."""
    given = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="xpsql-bench-") as name:
        folder, log = Path(name), given.log
        if log is None:
            log, rows = folder / "log", QUICK_ROWS if given.quick else given.rows
            measure(call(made, log, rows, rows // 5, 7))
        for group in given.only:
            module = importlib.import_module(f"benchmarks.{group}")
            own, found = folder / group, []
            own.mkdir()
            print(f"\n{group}", flush=True)
            for figure in module.figures(Run(own, log.absolute(), given.data, 1 if given.quick else given.rounds, given.quick)):
                target = "" if given.quick else figure.target or module.TARGETS.get(figure.what, "")
                found.append(figure._replace(target=target))
                print(found[-1].line(), flush=True)
            if given.json:
                RESULTS.mkdir(exist_ok=True)
                data = "" if given.data is None else " --data FOLDER"
                data += "" if given.rows == ROWS else f" --rows {given.rows}"
                text = json.dumps(document(group, found, f"python -m benchmarks --only {group}{data}"), indent=1)
                (RESULTS / f"{group}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
