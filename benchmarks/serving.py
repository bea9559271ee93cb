"""What the service costs: requests through its HTTP layer alone, and latencies of the whole service at a constant rate.

    python -m benchmarks.serving DATA WAREHOUSE SECONDS

DATA is a file of the log, on all of which a model is trained. Requests go through loopback only, a few seconds at each rate.
A latency is from when a request should have been sent to when its answer is there, so that one that waits for the one before it
counts as late. Printed: `value unit name`, a line each.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .load import SERVICE_CORE, latencies, on_core, posted

TRAIN = "TRAIN OR REPLACE MODEL m USING xftrl IGNORE (ts) AS SELECT * FROM parquet.`{data}`"
ARROW = "application/vnd.apache.arrow.stream"
PATH = "/v1/models/m:predict"
BODIES, CANDIDATES = 200, 100
RATES = {"JSON, one row": (500, 2000), "Arrow, 100 rows": (200, 500), "JSON, a context and 100 candidates": (50, 100)}
OWN_COLUMNS = 9
"""Columns that each candidate has of its own; the others are the context's."""


def bodies(table: pa.Table) -> dict[str, tuple[str, list[bytes], int]]:
    """Return requests by name: their content type, bodies, and the rows of each."""
    rows, names = table.slice(0, BODIES).to_pylist(), table.column_names
    streams = [streamed(table.slice(at * CANDIDATES, CANDIDATES)) for at in range(min(BODIES, len(table) // CANDIDATES))]
    ranked = []
    for row in rows[: BODIES // 4]:
        own = [{name: other[name] for name in names[:OWN_COLUMNS]} for other in rows[:CANDIDATES]]
        ranked.append({"context": {name: row[name] for name in names[OWN_COLUMNS:]}, "candidates": own})
    return {
        "JSON, one row": ("application/json", [json.dumps({"instances": [row]}).encode() for row in rows], 1),
        "Arrow, 100 rows": (ARROW, streams, CANDIDATES),
        "JSON, a context and 100 candidates": ("application/json", [json.dumps(one).encode() for one in ranked], CANDIDATES),
    }


def streamed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def alone(handle: Callable[[str, bytes], int], kind: str, requests: Sequence[bytes], seconds: float) -> float:
    """Return how many requests a CPU second answers, without a server in front."""
    for body in requests[:20]:
        assert handle(kind, body) == 200
    begin, answered = time.process_time(), 0
    while (spent := time.process_time() - begin) < seconds:
        for body in requests:
            handle(kind, body)
        answered += len(requests)
    return answered / spent


@contextmanager
def service(warehouse: str, *models: str) -> Iterator[int]:
    """Serve models on one core, and give the port once it listens."""
    port = free_port()
    command = [sys.executable, "-m", "xpsql", "serve", *models, "--warehouse", warehouse, "--port", str(port)]
    with on_core(SERVICE_CORE):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stderr is not None
        try:
            if not any(line.startswith(f"Serving {models[0]} ") for line in process.stderr):
                raise RuntimeError("the service ended before it listened")
            yield port
        finally:
            process.terminate()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main(data: str, warehouse: str, seconds: str) -> None:
    """Train, ask the HTTP layer, then the service."""
    import xpsql
    from xpsql.platform.serving.http import Service
    from xpsql.platform.serving.refusal import RequestLimits
    from xpsql.platform.serving.served import Served

    with xpsql.connect(warehouse) as session:
        session.sql(TRAIN.format(data=data))
        models = session.models
    rows = models.version("m").manifest.rows
    Served(models, ["m"], None, print)  # makes the images
    begin = time.perf_counter()
    handler = Service(Served(models, ["m"], None, print), RequestLimits(), None, None, lambda: None)
    print(f"{time.perf_counter() - begin:.4f} s loading a version of {rows:,} features whose images are there")
    names = [name for name in pq.read_schema(data).names if name not in ("label", "ts")]
    asked = bodies(pq.read_table(data, columns=names).slice(0, BODIES * CANDIDATES))

    def handle(kind: str, body: bytes) -> int:
        return handler.handle("POST", PATH, {"content-type": kind}, body).status

    for name, (kind, requests, each) in asked.items():
        rate = alone(handle, kind, requests, float(seconds))
        print(f"{rate * each:.0f} rows/s {name}: HTTP layer, a CPU second")
    with service(warehouse, "m") as port:
        for name, (kind, requests, _) in asked.items():
            whole = posted(PATH, kind, requests)
            latencies(port, whole, RATES[name][0], 0.5)  # not counted
            for rate in RATES[name]:
                taken = latencies(port, whole, rate, float(seconds)) * 1e3
                for part in (50, 99):
                    print(f"{np.percentile(taken, part):.2f} ms {name}, {rate} requests/s: p{part}")


if __name__ == "__main__":
    main(*sys.argv[1:])
