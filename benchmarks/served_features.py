"""What a service of ten million features costs: a linear model, beside the same one as a graph in onnxruntime, and a network.

    python -m benchmarks.served_features WAREHOUSE SECONDS [ROWS]

Each of ROWS rows, 262,144 if nothing is said, has a feature of its own in each of 39 columns; requests ask for any of them, so
that rows are found all over memory. Printed: `value unit name`, a line each.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from .serving import CANDIDATES, PATH, alone, bodies, latencies, service

COLUMNS, ROWS = 39, 262_144
DRAWN = 200 * CANDIDATES
DEEP_ROWS = 20_000
RATES = {"JSON, one row": 1000, "Arrow, 100 rows": 250}
"""Requests a second; a client in Python on the same cores sends no more of them in time."""
LOADING_RATE = 500


def query(rows: int) -> str:
    columns = ", ".join(f"concat('c{j}-', CAST(id * {2 * j + 1} % {rows} AS STRING)) AS c{j}" for j in range(COLUMNS))
    return f"SELECT CAST(id % 3 = 0 AS INT) AS label, {columns} FROM range({rows})"


def drawn(rows: int) -> pa.Table:
    random = np.random.default_rng(1)
    return pa.table({f"c{j}": [f"c{j}-{number}" for number in random.integers(0, rows, DRAWN)] for j in range(COLUMNS)})


def show(value: float, unit: str, name: str) -> None:
    print(f"{value:.4g} {unit} {name}" if value < 1e4 else f"{value:.0f} {unit} {name}", flush=True)


def percentiles(taken: list[float], name: str, *parts: float) -> None:
    for part in parts:
        show(float(np.percentile(taken, part)) * 1e3, "ms", f"{name}: p{part:g}")


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


def main(warehouse: str, seconds: float, rows: int) -> None:
    import xpsql
    from xpsql.platform.progress import SilentReporter
    from xpsql.platform.serving.http import Service
    from xpsql.platform.serving.refusal import RequestLimits
    from xpsql.platform.serving.served import Served

    exported = Path(warehouse) / "graph"
    with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
        session.sql(f"CREATE OR REPLACE TABLE log AS {query(rows)}")
        session.sql("DROP MODEL IF EXISTS m")
        session.sql("TRAIN MODEL m USING xftrl AS SELECT * FROM log")
        session.sql("ALTER MODEL m PROMOTE VERSION 1")
        network = "xnn (hidden = (128, 64), dim = 16)"
        session.sql(f"TRAIN OR REPLACE MODEL deep USING {network} AS SELECT * FROM log LIMIT {DEEP_ROWS}")
        session.sql(f"EXPORT MODEL m TO '{exported}' FORMAT onnx WITH (parity = 'SELECT * FROM log LIMIT 100')")
        models = session.models
        features = models.version("m").manifest.rows or 0
    show(features, "features", "of the linear model")
    Served(models, ["m"], None, print)  # makes the images
    begin = time.perf_counter()
    served = Served(models, ["m", "deep"], None, print)
    show(time.perf_counter() - begin, "s", "loading both models, whose images are there")
    handler = Service(served, RequestLimits(), None, None, lambda: None)
    table = drawn(rows)
    asked = bodies(table)
    deep_path = PATH.replace("/m:", "/deep:")
    for name, (kind, requests, each) in asked.items():
        for path, model in ((PATH, "xftrl"), (deep_path, "xnn")):

            def handle(kind: str, body: bytes, path: str = path) -> int:
                return handler.handle("POST", path, {"content-type": kind}, body).status

            rate = alone(handle, kind, requests, seconds)
            show(rate * each, "rows/s", f"{model}, {name}: HTTP layer, a CPU second")
            show(1e3 / rate, "ms", f"{model}, {name}: HTTP layer, CPU of a request")
    graph_rows(exported, table, seconds)
    with service(warehouse) as port:
        for name, rate in RATES.items():
            kind, requests, _ = asked[name]
            latencies(port, kind, requests, rate, 1.0)  # not counted
            taken = latencies(port, kind, requests, rate, seconds * 3)
            percentiles(taken, f"xftrl, {name}, {rate} requests/s", 50, 99, 99.9)
        kind, requests, _ = asked["JSON, one row"]
        with xpsql.connect(warehouse, reporter=SilentReporter()) as session:
            session.sql("CONTINUE MODEL m AS SELECT * FROM log")
        later = threading.Thread(target=promote, args=(warehouse,))
        later.start()
        taken = latencies(port, kind, requests, LOADING_RATE, max(20.0, seconds * 3))
        later.join()
        percentiles(taken, f"xftrl, JSON, one row, {LOADING_RATE} requests/s while a version loads", 50, 99, 99.9)
    with service(warehouse, "deep") as port:
        kind, requests, _ = asked["JSON, a context and 100 candidates"]
        latencies(port, kind, requests, 20, 1.0, deep_path)
        percentiles(
            latencies(port, kind, requests, 20, seconds * 3, deep_path),
            "xnn, a context and 100 candidates, 20 requests/s",
            50,
            99,
        )


def promote(warehouse: str) -> None:
    import xpsql

    time.sleep(2)
    with xpsql.connect(warehouse) as session:
        session.sql("ALTER MODEL m PROMOTE VERSION 2")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else ROWS)
