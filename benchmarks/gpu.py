"""A GPU beside the CPU: equality, speed, growth and recovery, in minutes on one card; without a card on JAX's CPU backend.

    python -m benchmarks.gpu [--only STEP ...] [--quick] [--out FILE]

Each step is a process of its own with a time limit; what one fails at, the others do without. Figures are printed
and written as they come, and tables of them last.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import Figure
from benchmarks.device_steps import (
    has_card,
    made_events,
    made_log,
    place_of,
    rows_of,
    steps,
    tables_of_vectors,
    timed,
    told,
    torch_figures,
    touched,
)
from benchmarks.process import connect

RESULTS = Path(__file__).parent / "results"
USING = {
    "xftrl": "xftrl",
    "xnn": "xnn (dim = 16)",
    "din": "din (target = (c0), history = (seen), dim = 16)",
    "multi_task": "multi_task (base = mmoe, experts = 2)",
}
LABELS = {"multi_task": "LABEL label, late"}
TESTS = ("tests/ps/test_device_rows.py", "tests/ps/test_device_table.py")
IN_FULL = "DeviceRows or card or brought or test_device_table"
KEYS, DIM = 250_000, 16


def settings(place: str) -> str:
    """Return what WITH says of a place: cpu, gpu, or rows on either."""
    device = f"device = '{place.removesuffix(', rows too')}'"
    return f"workers = 1, {device}" + (", rows_on = 'device'" if place.endswith("rows too") else "")


def places() -> list[str]:
    return ["cpu", "gpu", "gpu, rows too"] if has_card() else ["cpu", "cpu, rows too"]


def machine(folder: Path, quick: bool) -> Iterator[Figure]:
    """Print versions and devices, and try a product and initial values."""
    from importlib.metadata import version

    card = has_card()
    import jax
    import jax.numpy as jnp

    from xpsql.algorithms.layers.initial import uniform

    names = ("jax", "jaxlib", "numpy", "pyarrow", "duckdb", "torch")
    print({name: version(name) for name in names if find_spec(name)}, jax.local_devices(), flush=True)
    device = jax.local_devices(backend="gpu" if card else "cpu")[0]
    if (stats := device.memory_stats()) is not None:
        yield Figure(f"{device.device_kind}: memory", stats["bytes_limit"] / 2**30, "GiB")
    size = 512 if quick else 8192
    square = jax.device_put(np.ones((size, size), np.float32), device)
    yield Figure("float32 product", 2e-12 * size**3 / timed(jax.jit(jnp.matmul), square, square), "TFLOP/s")
    keys = np.random.default_rng(1).integers(0, 2**32, (100_000, 2), np.uint32)
    init = jax.jit(lambda keys: uniform(0.01, DIM)(7, keys))
    found = [np.asarray(init(jax.device_put(keys, one))) for one in (device, jax.local_devices(backend="cpu")[0])]
    yield Figure("initial values unlike the CPU's", float((found[0] != found[1]).sum()), "floats", "<= 0")


def suites(folder: Path, quick: bool) -> Iterator[Figure]:
    """Run the suites of rows and tables on the device, and hold a large table to the native store."""
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", *TESTS]
    run = subprocess.run([*command, *(["-k", "DeviceRows" if quick else IN_FULL])], capture_output=True, text=True)
    print("\n".join(line for line in run.stdout.splitlines() if "leaked" not in line)[-3000:], flush=True)
    yield Figure("suites of rows and tables: exit status", abs(run.returncode), "", "<= 0")
    for operator, near in (("sgd", 1e-6), ("ftrl", 1e-6), ("adagrad", 1e-6)):
        yield from against_native(operator, near, quick)


def against_native(operator: str, near: float, quick: bool) -> Iterator[Figure]:
    """Push the same gradients of many keys to a table on the device and one of the native store."""
    import jax

    tables, device = tables_of_vectors(operator, DIM), place_of(True).found
    random, n = np.random.default_rng(2), 5_000 if quick else KEYS
    keys = random.integers(0, 2**64, 4 * n, np.uint64)
    for batch in range(6):
        own = random.choice(keys, n, replace=False)
        gradients = {"vectors": random.normal(size=(n, DIM)).astype(np.float32)}
        for table in tables:
            table.push(touched(own, n), None, table.pull(own, n, batch).weights, gradients, batch)
    pulled = [np.asarray(table.pull(own, n, 9).weights["vectors"]) for table in tables]
    off = float(np.abs(pulled[0] - pulled[1]).max() / max(np.abs(pulled[1]).max(), 1e-9))
    yield Figure(
        f"{operator}: {len(tables[1]):,} rows beside the native store, largest relative difference", off, "", f"<= {near}"
    )
    on_device = {"vectors": jax.device_put(gradients["vectors"], device)}

    def both(table: Any, given: Any) -> Any:
        weights = table.pull(own, n, 9).weights
        table.push(touched(own, n), None, weights, given, 9)
        return table.store.tally if table is tables[0] else None

    for what, table, given in (("device", tables[0], on_device), ("native store", tables[1], gradients)):
        yield Figure(f"{operator}: pull and push of {n:,} keys x {DIM}, {what}", 1e3 * timed(both, table, given), "ms")


def quality(folder: Path, quick: bool) -> Iterator[Figure]:
    """Train on the same rows here and there: AUC, and the losses of the first batches."""
    log = made_log(folder / "log.parquet", 20_000 if quick else 200_000, 3)
    first = made_log(folder / "first.parquet", 5_120 if quick else 51_200, 4)
    session = connect(folder / "quality")
    for name in ("xftrl", "xnn") if quick else USING:
        found: dict[str, list[float]] = {}
        for place in places():
            found[place] = []
            for path, what in ((log, "auc"), (first, "logloss")):
                columns = "*" if name == "din" else "* EXCEPT (seen)"
                statement = (
                    f"TRAIN OR REPLACE MODEL m USING {USING[name]} {LABELS.get(name, 'LABEL label IGNORE (late)')} "
                    f"WITH (batch_size = 1024, {settings(place)}) AS SELECT {columns} FROM parquet.`{path}`"
                )
                begun = time.perf_counter()
                try:
                    row = session.sql(statement).arrow().to_pylist()[0]
                except Exception as error:  # told as a miss; the others are still measured
                    print(name, place, type(error).__name__, error, flush=True)
                    yield Figure(f"{name}, {place}: trainings that failed", 1.0, "", "<= 0")
                    break
                found[place].append(float(row[what]))
                if path is log:
                    yield Figure(f"{name}, {place}: {what}", row[what], "")
                    yield Figure(
                        f"{name}, {place}: rows in the statement's time",
                        rows_of(path) / (time.perf_counter() - begun),
                        "rows/s",
                    )
            if found[place] and found["cpu"] and place != "cpu":
                off = [abs(one - other) for one, other in zip(found[place], found["cpu"], strict=False)]
                yield Figure(f"{name}, {place}: AUC off the CPU's", off[0], "", "<= 0.0005")
                yield Figure(f"{name}, {place}: mean loss of the first 50 batches off the CPU's", off[-1], "", "<= 0.0001")


def speed(folder: Path, quick: bool) -> Iterator[Figure]:
    """Measure steps: alone on the device, with the batch's way there, and with rows; and PyTorch's."""
    batches = (1_024,) if quick else (65_536, 16_384, 4_096)
    sizes = [(name, 16, batch) for batch in batches for name in ("xnn", "din")]
    sizes += [] if quick else [("xnn", 64, batches[0]), ("din", 64, batches[0])]
    for name, dim, batch in sizes:
        yield from told(f"{name}, dim {dim}, batch {batch:,}", steps(name, dim, batch))
    if find_spec("torch"):
        yield from torch_figures([(dim, batch) for name, dim, batch in sizes if name == "xnn"])


def whole(folder: Path, quick: bool) -> Iterator[Figure]:
    """Measure trainings from Parquet to the committed version, the second time, when all is compiled."""
    log = made_log(folder / "whole.parquet", 20_000 if quick else 300_000, 5)
    session = connect(folder / "whole")
    sizes = [("xnn", batch) for batch in ((1_024,) if quick else (65_536, 16_384, 4_096))] + (
        [] if quick else [("din", 16_384)]
    )
    for (name, batch), place in product(sizes, places()):
        columns = "*" if name == "din" else "* EXCEPT (seen)"
        statement = (
            f"TRAIN OR REPLACE MODEL m USING {USING[name]} LABEL label IGNORE (late) "
            f"WITH (batch_size = {batch}, {settings(place)}) AS SELECT {columns} FROM parquet.`{log}`"
        )
        what = f"{name}, dim 16, batch {batch:,}, {place}"
        yield from told(what, trained_twice(what, session, statement, rows_of(log)))
    events = made_events(folder / "events.parquet", 5_000 if quick else 200_000, 6)
    for place in places():
        what = f"sequence, dim 32, length 64, {place}"
        statement = (
            "TRAIN OR REPLACE MODEL m USING sequence (item = item, dim = 32, length = 64, dropout = 0) GROUP user TIME ts "
            f"WITH (passes = 1, batch_size = {512 if quick else 8192}, {settings(place)}) AS SELECT * FROM parquet.`{events}`"
        )
        yield from told(what, trained_twice(what, session, statement, rows_of(events)))


def trained_twice(what: str, session: Any, statement: str, rows: int) -> Iterator[Figure]:
    """Yield the speed of a training whose programs are compiled."""
    session.sql(statement)
    begun = time.perf_counter()
    session.sql(statement)
    yield Figure(f"{what}: whole", rows / (time.perf_counter() - begun), "rows/s")


def growth(folder: Path, quick: bool) -> Iterator[Figure]:
    """Push four times the rows that the granted memory holds, and hold what is pulled to the native store."""
    rows = 1 << (12 if quick else 20)
    n, random = rows // 16, np.random.default_rng(3)
    tables = tables_of_vectors("adagrad", DIM, rows * 220, rows // 16)
    pool, spent = random.integers(0, 2**64, 4 * rows, np.uint64), []
    for batch in range(80):
        begin = batch * n % len(pool)
        own = np.unique(np.concatenate([pool[begin : begin + n], random.choice(pool, n // 4)]))
        gradients = {"vectors": random.normal(size=(2 * n, DIM)).astype(np.float32)}
        for table in tables:
            begun = time.perf_counter()
            table.push(touched(own, n), None, table.pull(own, 2 * n, batch).weights, gradients, batch)
            if table is tables[0]:
                table.store.settle()
                spent.append(time.perf_counter() - begun)
    own = np.unique(random.choice(pool, n, replace=False))
    pulled = [np.asarray(table.pull(own, 2 * n, 99).weights["vectors"]) for table in tables]
    store = tables[0].store
    yield Figure("rows on the device", store.tally.rows, "rows")
    yield Figure("rows in this machine's memory beside it", len(store.beside), "rows")
    yield Figure("rows unlike in number", abs(len(tables[0]) - len(tables[1])), "rows", "<= 0")
    yield Figure("largest difference from the native store", float(np.abs(pulled[0] - pulled[1]).max()), "", "<= 1e-05")
    yield Figure(f"a batch of {n:,} keys, median", 1e3 * float(np.median(spent)), "ms")
    yield Figure(f"a batch of {n:,} keys, slowest after the first eight", 1e3 * max(spent[8:]), "ms")


def recovery(folder: Path, quick: bool) -> Iterator[Figure]:
    """Kill a training on the device, resume it, and hold it to one that was left alone."""
    log, place = made_log(folder / "log.parquet", 30_000 if quick else 600_000, 6), places()[-1]
    warehouse, checkpoints = folder / "warehouse", folder / "checkpoints"
    with_ = f"batch_size = {256 if quick else 2048}, {settings(place)}"

    def statement(model: str, more: str = "") -> str:
        query = f"SELECT * EXCEPT (seen) FROM parquet.`{log}`"
        return f"TRAIN MODEL {model} USING xnn (dim = 8) LABEL label IGNORE (late) WITH ({with_}{more}) AS {query}"

    kept = f", checkpoint_seconds = 0.2, checkpoint_path = '{checkpoints}'"
    command = [sys.executable, "-m", "xpsql", "sql", statement("killed", kept), "--warehouse", str(warehouse), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not any(checkpoints.rglob("manifest.json")):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    yield Figure("killed while it learned", float(process.returncode == -signal.SIGKILL), "", ">= 1")
    if process.returncode != -signal.SIGKILL:
        print(errors[-2000:], flush=True)
    session = connect(warehouse)
    resumed = session.sql("RESUME MODEL killed").arrow().to_pylist()[0]
    alone = session.sql(statement("alone")).arrow().to_pylist()[0]
    yield Figure(f"{place}: AUC after a kill and RESUME", resumed["auc"], "")
    yield Figure(f"{place}: AUC off that of a training left alone", abs(resumed["auc"] - alone["auc"]), "", "<= 0.0005")
    yield Figure(f"{place}: examples off", abs(resumed["examples"] - alone["examples"]), "", "<= 0")


STEPS: dict[str, tuple[Callable[[Path, bool], Iterator[Figure]], int]] = {
    "machine": (machine, 30),
    "suites": (suites, 120),
    "growth": (growth, 40),
    "recovery": (recovery, 45),
    "quality": (quality, 120),
    "speed": (speed, 150),
    "whole": (whole, 120),
}
"""Each with the seconds that it may take at most on a card; without one twice as long."""


def run_step(name: str, quick: bool) -> None:
    """Run a step in this process, and print its figures as JSON."""
    with tempfile.TemporaryDirectory(prefix="xpsql-gpu-") as folder:
        for figure in STEPS[name][0](Path(folder), quick):
            print("FIGURE " + json.dumps(figure), flush=True)


def started(name: str, quick: bool, seconds: float) -> Iterator[Figure]:
    """Run a step in a process of its own, for so long at most, and yield its figures as they come."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--step", name, *(["--quick"] if quick else [])]
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    watch = subprocess.Popen([sys.executable, "-c", f"import os, time; time.sleep({seconds}); os.killpg({process.pid}, 9)"])
    assert process.stdout is not None
    print(f"\n{name}", flush=True)
    for line in process.stdout:
        if line.startswith("FIGURE "):
            yield Figure(*json.loads(line.removeprefix("FIGURE ")))
        else:
            print(line, end="", flush=True)
    status = process.wait()
    watch.kill()
    watch.wait()
    yield Figure(f"{name}: exit status", float(abs(status)), "", "<= 0")
    yield Figure(f"{name}: time", time.monotonic() - begun, "s")


def write(path: Path, found: dict[str, list[Figure]]) -> None:
    """Write all figures so far, in the shape of benchmarks/results."""
    from benchmarks.__main__ import document

    every = [figure for figures in found.values() for figure in figures]
    text = json.dumps(document("gpu", every, "python -m benchmarks.gpu"), indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Run the steps asked for, and print and write their figures."""
    parser = argparse.ArgumentParser(
        "benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=tuple(STEPS), default=tuple(STEPS), metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--quick", action="store_true", help="small sizes, as without a card")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu.json", help="where the figures go, as JSON")
    parser.add_argument("--seconds", type=float, default=570, help="of all steps; those that find no time are left out")
    parser.add_argument("--step", choices=tuple(STEPS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        return run_step(given.step, given.quick)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    probe = [sys.executable, "-c", "from benchmarks.device_steps import has_card; raise SystemExit(not has_card())"]
    card = subprocess.run(probe, capture_output=True).returncode == 0
    quick, ends = given.quick or not card, time.monotonic() + given.seconds
    found: dict[str, list[Figure]] = {}
    for name in given.only:
        most = min(STEPS[name][1] * (1 if card else 2), ends - time.monotonic())
        left_out = Figure(f"{name}: left out, no time", 1.0, "", "<= 0")
        found[name] = []
        for figure in started(name, quick, most) if most > 5 else [left_out]:
            print(figure.line(), flush=True)
            found[name].append(figure)
            if card or given.out != RESULTS / "gpu.json":
                write(given.out, found)
    print("\n" + ("On a card." if card else "Without a card: on JAX's CPU backend, with small sizes."))
    for name, figures in found.items():
        print(f"\n{name}", *(figure.line() for figure in figures), sep="\n")
    return None if all(figure.verdict != "miss" for figures in found.values() for figure in figures) else sys.exit(1)


if __name__ == "__main__":
    main()
