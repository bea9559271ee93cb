"""What a service of ten million features costs: a linear model, beside the same one as a graph in onnxruntime and in Vowpal
Wabbit's daemon, and a network.

    python -m benchmarks.served_features WAREHOUSE SECONDS [ROWS]

Each of ROWS rows, 262,144 if nothing is said, has a feature of its own in each of 39 columns; requests ask for any of them, so
that rows are found all over memory. Models that WAREHOUSE has are taken as they are. Services run on one core, the client on
another. Rates are halves and quarters of 20,000 rows of JSON and 400,000 candidates a second. The version that loads meanwhile,
whose image is made first, is of a factorization machine: 1 GB. Printed: `value unit name`, a line each.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from . import vw
from .load import SERVICE_CORE, latencies, on_core, posted
from .process import measure
from .serving import CANDIDATES, PATH, alone, bodies, free_port, service

if TYPE_CHECKING:
    import xpsql

COLUMNS, ROWS = 39, 262_144
DRAWN = 200 * CANDIDATES
DEEP_ROWS, WIDE_ROWS = 20_000, 1000
WIDE = "wide"
HALF = {"JSON, one row": 10_000, "Arrow, 100 rows": 2_000}
"""Requests a second, half of what one core is to answer."""
RANKINGS = 100
CONNECTIONS = 32
LOADING = 8
"""Times the seconds of a measurement, one while a version loads."""
NAME = "while a version of 1 GB loads"


def query(rows: int) -> str:
    columns = ", ".join(f"concat('c{j}-', CAST(id * {2 * j + 1} % {rows} AS STRING)) AS c{j}" for j in range(COLUMNS))
    return f"SELECT CAST(id % 3 = 0 AS INT) AS label, {columns} FROM range({rows})"


def drawn(rows: int) -> pa.Table:
    random = np.random.default_rng(1)
    return pa.table({f"c{j}": [f"c{j}-{number}" for number in random.integers(0, rows, DRAWN)] for j in range(COLUMNS)})


def show(value: float, unit: str, name: str) -> None:
    print(f"{value:.4g} {unit} {name}" if value < 1e4 else f"{value:.0f} {unit} {name}", flush=True)


def percentiles(taken: NDArray[np.float64], name: str, *parts: float) -> None:
    for part in parts:
        show(float(np.percentile(taken, part)) * 1e3, "ms", f"{name}: p{part:g}")


def models_of(session: xpsql.Session, rows: int, graph: Path) -> None:
    """Train what the warehouse lacks."""
    known = session.models.names()
    if "m" not in known:
        session.sql(f"CREATE OR REPLACE TABLE log AS {query(rows)}")
        session.sql("TRAIN MODEL m USING xftrl AS SELECT * FROM log")
    if "deep" not in known:
        network = "xnn (hidden = (128, 64), dim = 16)"
        session.sql(f"TRAIN MODEL deep USING {network} AS SELECT * FROM log LIMIT {DEEP_ROWS}")
    if WIDE not in known:
        machine = "fm (dim = 20) OPERATORS (sgd)"
        session.sql(f"TRAIN MODEL {WIDE} USING {machine} AS SELECT * FROM log LIMIT {WIDE_ROWS}")
        session.sql(f"CONTINUE MODEL {WIDE} AS SELECT * FROM log")
    session.sql(f"ALTER MODEL {WIDE} PROMOTE VERSION 1")
    if not graph.exists():
        session.sql(f"EXPORT MODEL m TO '{graph}' FORMAT onnx WITH (parity = 'SELECT * FROM log LIMIT 100')")


def graph_rows(folder: Path, table: pa.Table, seconds: float) -> None:
    """Ask the same model as a graph, by keys that the client has computed, as a server in Python would, without HTTP."""
    import onnxruntime

    from xpsql.platform.ps._native import hash_bytes
    from xpsql.platform.ps.keys import slot_seed

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    keys = []
    for name in names:
        column = table.column(name).combine_chunks()
        data, offsets = np.frombuffer(column.buffers()[2], np.uint8), np.frombuffer(column.buffers()[1], np.int32)
        keys.append(hash_bytes(offsets[: len(column) + 1], data, seeds=slot_seed(name)).view(np.int64))
    whole = np.stack(keys)
    requests = [whole[:, at : at + CANDIDATES].tobytes() for at in range(0, DRAWN, CANDIDATES)]

    def handle(_: str, body: bytes) -> int:
        lines = np.frombuffer(body, np.int64).reshape(len(names), -1)
        (found,) = session.run(None, dict(zip(names, lines, strict=True)))
        return 200 if len(found.tobytes()) == 4 * CANDIDATES else 500

    rate = alone(handle, "", requests, seconds)
    show(rate * CANDIDATES, "rows/s", "onnxruntime in Python, 100 rows of keys: a CPU second")


def daemon_rows(folder: Path, session: xpsql.Session, table: pa.Table, seconds: float) -> None:
    """Ask the same model in Vowpal Wabbit's daemon on one core, in its own text."""
    try:
        import vowpalwabbit  # noqa: F401
    except ImportError:
        return
    model, names = folder / "vw.model", table.column_names
    if not model.exists():
        made_vw(model, names, session)
    rows = [" ".join(["|", *map("=".join, zip(names, row.values(), strict=True))]) + "\n" for row in table.to_pylist()]
    hundreds = ["".join(rows[at : at + CANDIDATES]).encode() for at in range(0, len(rows), CANDIDATES)]
    asked = {"one row": (1, [row.encode() for row in rows[:200]]), "100 rows": (CANDIDATES, hundreds)}
    with daemon(model) as port:
        for name, (each, requests) in asked.items():
            taken = latencies(port, requests, 0, seconds, lines=each)
            show(len(taken) * each / seconds, "rows/s", f"Vowpal Wabbit's daemon, {name}: one core")


def made_vw(model: Path, names: list[str], session: xpsql.Session) -> None:
    """Learn the log as Vowpal Wabbit does."""
    features, data = ", ' ', ".join(f"'{name}=', {name}" for name in names), model.with_suffix(".txt")
    line = f"concat(CASE WHEN label = 1 THEN '1 | ' ELSE '-1 | ' END, {features})"
    data.write_text("\n".join(session.sql(f"SELECT {line} AS line FROM log").arrow().column("line").to_pylist()))
    measure(vw.train(data, model))
    data.unlink()


@contextmanager
def daemon(model: Path) -> Iterator[int]:
    """Serve a model by Vowpal Wabbit on one core, a process for each of ten connections, and give the port."""
    port = free_port()
    with on_core(SERVICE_CORE):
        process = subprocess.Popen(vw.serve(model, port), start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("Vowpal Wabbit does not listen")
            time.sleep(0.2)
        yield port
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def listens(port: int) -> bool:
    """Tell whether a process listens, without a connection, of which each of Vowpal Wabbit's processes takes one."""
    states = (line.split()[1:4] for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return any(local.endswith(f":{port:04X}") and state == "0A" for local, _, state in states)


def layer(warehouse: str, session: xpsql.Session, table: pa.Table, seconds: float) -> None:
    """Ask the HTTP layer, without a server in front."""
    from xpsql.platform.serving.http import Service
    from xpsql.platform.serving.refusal import RequestLimits
    from xpsql.platform.serving.served import Served

    Served(session.models, ["m"], None, print)  # makes the images
    begin = time.perf_counter()
    served = Served(session.models, ["m", "deep"], None, print)
    show(time.perf_counter() - begin, "s", "loading both models, whose images are there")
    handler = Service(served, RequestLimits(), None, None, lambda: None)
    for name, (kind, requests, each) in bodies(table).items():
        for path, model in ((PATH, "xftrl"), (path_of("deep"), "xnn")):

            def handle(kind: str, body: bytes, path: str = path) -> int:
                return handler.handle("POST", path, {"content-type": kind}, body).status

            rate = alone(handle, kind, requests, seconds)
            show(rate * each, "rows/s", f"{model}, {name}: HTTP layer, a CPU second")
            show(1e3 / rate, "ms", f"{model}, {name}: HTTP layer, CPU of a request")


def path_of(model: str) -> str:
    return PATH.replace("/m:", f"/{model}:")


def constant(port: int, table: pa.Table, seconds: float, quick: bool) -> None:
    """Ask the linear model as often as one core answers, and half as often as it is to."""
    for name, rate in HALF.items():
        kind, requests, each = bodies(table)[name]
        whole = posted(PATH, kind, requests)
        latencies(port, whole, rate / 10, 1.0, CONNECTIONS)  # not counted
        taken = latencies(port, whole, 0, seconds, CONNECTIONS)
        show(len(taken) * each / seconds, "rows/s", f"xftrl, {name}: service on one core")
        rate = rate // 20 if quick else rate
        taken = latencies(port, whole, rate, 3 * seconds, CONNECTIONS)
        percentiles(taken, f"xftrl, {name}, {rate} requests/s", 50, 99, 99.9)


def loading(warehouse: str, port: int, table: pa.Table, seconds: float, quick: bool) -> None:
    """Ask the linear model, a quarter as often as one core is to answer, while another version is made ready and swapped."""
    for name, half in HALF.items():
        kind, requests, _ = bodies(table)[name]
        rate = half // 40 if quick else half // 2
        promote(warehouse, 1)
        wait_for(port, 1, 60)
        shutil.rmtree(Path(warehouse) / "models" / WIDE / "v2" / "serving", ignore_errors=True)
        whole = posted(PATH, kind, requests)
        latencies(port, whole, rate, 1.0, CONNECTIONS)  # not counted
        later = threading.Timer(2.0, promote, (warehouse, 2))
        later.start()
        taken = latencies(port, whole, rate, LOADING * seconds, CONNECTIONS)
        later.join()
        begin = time.perf_counter()
        wait_for(port, 2, 180)
        show(time.perf_counter() - begin, "s", f"xftrl, {name}: the version is there so much after the last request")
        percentiles(taken, f"xftrl, {name}, {rate} requests/s {NAME}", 50, 99, 99.9)


def promote(warehouse: str, number: int) -> None:
    """Promote a version, in a process of its own."""
    statement = f"ALTER MODEL {WIDE} PROMOTE VERSION {number}"
    measure([sys.executable, "-m", "xpsql", "sql", statement, "--warehouse", warehouse])


def wait_for(port: int, number: int, seconds: float) -> None:
    """Wait until a version is served.

    Raises:
        RuntimeError: it is not, after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/{WIDE}", timeout=60) as answer:
            if json.load(answer)["versions"] == [str(number)]:
                return
        time.sleep(0.1)
    raise RuntimeError(f"version {number} of {WIDE} is not served after {seconds:g} s")


def main(warehouse: str, seconds: float, rows: int) -> None:
    import xpsql
    from xpsql.platform.progress import SilentReporter

    quick, graph = rows < ROWS, Path(warehouse) / "graph"
    table = drawn(rows)
    with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
        models_of(session, rows, graph)
        show(session.models.version("m").manifest.rows or 0, "features", "of the linear model")
        layer(warehouse, session, table, seconds)
        graph_rows(graph, table, seconds)
        daemon_rows(Path(warehouse), session, table, seconds)
    with service(warehouse, "m", WIDE) as port:
        constant(port, table, seconds, quick)
        loading(warehouse, port, table, seconds, quick)
    begin = time.perf_counter()
    with service(warehouse, WIDE) as port:
        wait_for(port, 2, 60)
        show(time.perf_counter() - begin, "s", "from the start of a process to its first answer: a row of 21 floats a feature")
    with service(warehouse, "deep") as port:
        kind, requests, _ = bodies(table)["JSON, a context and 100 candidates"]
        whole = posted(path_of("deep"), kind, requests)
        latencies(port, whole, 20, 1.0)  # not counted
        taken = latencies(port, whole, RANKINGS, 3 * seconds)
        percentiles(taken, f"xnn, a context and 100 candidates, {RANKINGS} requests/s", 50, 99)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else ROWS)
