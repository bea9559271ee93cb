"""The service on one core through loopback, the client on another: a linear model of ten million features, and a network.

Each row has a feature of its own in each of 39 columns, and requests ask for any of them. A latency is from when a request is
due, so that one that waits for the one before it counts as late. The client is load.cpp.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks import Figure, Run
from benchmarks.process import connect, cores, figures_of, measure

if TYPE_CHECKING:
    import xpsql

TARGETS = {
    "xftrl, JSON, one row: HTTP layer, a CPU second": ">= 20000",
    "xftrl, Arrow, 100 rows: HTTP layer, a CPU second": ">= 400000",
    "xftrl, JSON, one row: service on one core": ">= 20000",
    "xftrl, Arrow, 100 rows: service on one core": ">= 400000",
    "xftrl, JSON, one row, 10000 requests/s: p99": "<= 1",
    "xftrl, Arrow, 100 rows, 2000 requests/s: p99": "<= 1",
    "xftrl, JSON, one row, 5000 requests/s while a version of 1 GB loads: p99.9": "<= 2",
    "xftrl, Arrow, 100 rows, 1000 requests/s while a version of 1 GB loads: p99.9": "<= 2",
    "xnn, a context and 100 candidates, 100 requests/s: p99": "<= 3",
    "start of a process to its first answer, 10M rows of 21 floats": "<= 1",
}
SERVICE_CORE, CLIENT_CORE, CONNECTIONS = 0, 1, 32
COLUMNS, ROWS, QUICK_ROWS, OWN_COLUMNS, CANDIDATES, BODIES = 39, 262_144, 3_000, 9, 100, 200
DEEP_ROWS, WIDE_ROWS, RANKINGS = 20_000, 1000, 100
RATES = {"JSON, one row": 10_000, "Arrow, 100 rows": 2_000}
"""Requests a second, half of what one core is to answer."""


class Requests(NamedTuple):
    """Bodies of a content type, and the rows of each."""

    kind: str
    bodies: list[bytes]
    rows: int

    def posted(self, model: str) -> list[bytes]:
        head = f"POST {path(model)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {self.kind}\r\nContent-Length: "
        return [f"{head}{len(body)}\r\n\r\n".encode() + body for body in self.bodies]


def figures(run: Run) -> Iterator[Figure]:
    rows, length = run.size(QUICK_ROWS, ROWS), run.size(1, 3) / (10 if run.quick else 1)
    warehouse, slower = run.folder / "warehouse", run.size(20, 1)
    yield from figures_of(alone, warehouse, rows, length)
    asked = requests(rows)
    with service(warehouse, "m", "wide") as port:
        yield from constant(port, asked, length, slower)
        yield from loading(warehouse, port, asked, length, slower)
    begin = time.perf_counter()
    with service(warehouse, "wide") as port:
        wait_for(port, 2, 60)
        yield Figure("start of a process to its first answer, 10M rows of 21 floats", time.perf_counter() - begin, "s")
    with service(warehouse, "deep") as port:
        whole = asked["a context and 100 candidates"].posted("deep")
        latencies(port, whole, 20, 1.0, 8)  # not counted
        taken = latencies(port, whole, RANKINGS, 3 * length, 8)
        yield from percentiles(taken, f"xnn, a context and 100 candidates, {RANKINGS} requests/s", 50, 99)


def path(model: str) -> str:
    return f"/v1/models/{model}:predict"


def drawn(rows: int) -> pa.Table:
    """Return rows that are asked for."""
    random, number = np.random.default_rng(1), BODIES * CANDIDATES
    return pa.table({f"c{j}": [f"c{j}-{one}" for one in random.integers(0, rows, number)] for j in range(COLUMNS)})


def requests(rows: int) -> dict[str, Requests]:
    """Return requests by name."""
    table = drawn(rows)
    singles, names, ranked = table.slice(0, BODIES).to_pylist(), table.column_names, []
    for row in singles[: BODIES // 4]:
        own = [{name: other[name] for name in names[:OWN_COLUMNS]} for other in singles[:CANDIDATES]]
        ranked.append({"context": {name: row[name] for name in names[OWN_COLUMNS:]}, "candidates": own})
    streams = [streamed(table.slice(start, CANDIDATES)) for start in range(0, len(table), CANDIDATES)]
    ones, several = ([json.dumps(one).encode() for one in some] for some in ([{"instances": [row]} for row in singles], ranked))
    return {
        "JSON, one row": Requests("application/json", ones, 1),
        "Arrow, 100 rows": Requests("application/vnd.apache.arrow.stream", streams, CANDIDATES),
        "a context and 100 candidates": Requests("application/json", several, CANDIDATES),
    }


def streamed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def train(session: xpsql.Session, rows: int) -> None:
    """Train a linear model, a network, and a model whose second version is 1 GB."""
    columns = ", ".join(f"concat('c{j}-', CAST(id * {2 * j + 1} % {rows} AS STRING)) AS c{j}" for j in range(COLUMNS))
    session.sql(f"CREATE TABLE log AS SELECT CAST(id % 3 = 0 AS INT) AS label, {columns} FROM range({rows})")
    session.sql("TRAIN MODEL m USING xftrl AS SELECT * FROM log")
    session.sql(f"TRAIN MODEL deep USING xnn (hidden = (128, 64), dim = 16) AS SELECT * FROM log LIMIT {DEEP_ROWS}")
    session.sql(f"TRAIN MODEL wide USING fm (dim = 20) OPERATORS (sgd) AS SELECT * FROM log LIMIT {WIDE_ROWS}")
    session.sql("CONTINUE MODEL wide AS SELECT * FROM log")
    session.sql("ALTER MODEL wide PROMOTE VERSION 1")


def alone(warehouse: str, rows: int, length: float) -> Iterator[Figure]:
    """Train, and yield the figures of the HTTP layer without a server in front."""
    from xpsql.platform.serving.http import Service
    from xpsql.platform.serving.refusal import RequestLimits
    from xpsql.platform.serving.served import Served

    with connect(warehouse) as session:
        train(session, rows)
        yield Figure("features of the linear model", session.models.version("m").manifest.learned.rows or 0, "rows")
        Served(session.models, ["m"], None, print)  # makes the images
        begin = time.perf_counter()
        served = Served(session.models, ["m", "deep"], None, lambda text: None)
        yield Figure("loading both models, whose images are there", time.perf_counter() - begin, "s")
        handler = Service(served, RequestLimits(), None, None, lambda: None)
        for name, asked in requests(rows).items():
            for model, algorithm in (("m", "xftrl"), ("deep", "xnn")):

                def handle(body: bytes, kind: str = asked.kind, to: str = path(model)) -> bool:
                    return handler.handle("POST", to, {"content-type": kind}, body).status == 200

                rate = answered(handle, asked.bodies, length) * asked.rows
                yield Figure(f"{algorithm}, {name}: HTTP layer, a CPU second", rate, "rows/s")


def answered(handle: Callable[[bytes], bool], bodies: Sequence[bytes], length: float) -> float:
    """Return how many requests a CPU second answers."""
    assert all(handle(body) for body in bodies[:20])
    begin, count = time.process_time(), 0
    while (spent := time.process_time() - begin) < length:
        for body in bodies:
            handle(body)
        count += len(bodies)
    return count / spent


def constant(port: int, asked: dict[str, Requests], length: float, slower: int) -> Iterator[Figure]:
    """Ask the linear model as often as one core answers, and half as often as it is to."""
    for name, rate in RATES.items():
        whole = asked[name].posted("m")
        latencies(port, whole, rate / 20, 1.0)  # not counted
        taken = latencies(port, whole, 0, length)
        yield Figure(f"xftrl, {name}: service on one core", len(taken) * asked[name].rows / length, "rows/s")
        taken = latencies(port, whole, rate / slower, 3 * length)
        yield from percentiles(taken, f"xftrl, {name}, {rate // slower} requests/s", 50, 99, 99.9)


def loading(warehouse: Path, port: int, asked: dict[str, Requests], length: float, slower: int) -> Iterator[Figure]:
    """Ask the linear model, a quarter as often as one core is to answer, while another version is made ready and swapped."""
    for name, half in RATES.items():
        rate = half // 2 // slower
        promote(warehouse, 1)
        wait_for(port, 1, 60)
        shutil.rmtree(warehouse / "models" / "wide" / "v2" / "serving", ignore_errors=True)
        later = threading.Timer(length / 2, promote, (warehouse, 2))
        later.start()
        taken = latencies(port, asked[name].posted("m"), rate, 8 * length)
        later.join()
        wait_for(port, 2, 180)
        yield from percentiles(taken, f"xftrl, {name}, {rate} requests/s while a version of 1 GB loads", 50, 99, 99.9)


def percentiles(taken: NDArray[np.float64], name: str, *parts: float) -> Iterator[Figure]:
    for part in parts:
        yield Figure(f"{name}: p{part:g}", float(np.percentile(taken, part)) * 1e3, "ms")


def promote(warehouse: Path, number: int) -> None:
    """Promote a version, in a process of its own."""
    statement = f"ALTER MODEL wide PROMOTE VERSION {number}"
    measure([sys.executable, "-m", "xpsql", "sql", statement, "--warehouse", warehouse])


def wait_for(port: int, number: int, most: float) -> None:
    """Wait until a version is served, so many seconds at most."""
    deadline = time.monotonic() + most
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/wide", timeout=60) as answer:
            if json.load(answer)["versions"] == [str(number)]:
                return
        time.sleep(0.02)
    raise RuntimeError(f"version {number} of wide is not served after {most:g} s")


@contextmanager
def service(warehouse: Path, *models: str) -> Iterator[int]:
    """Serve models on one core, and give the port once it listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    command = [sys.executable, "-m", "xpsql", "serve", *models, "--warehouse", str(warehouse), "--port", str(port)]
    with cores(1, SERVICE_CORE):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stderr is not None
        try:
            if not any(line.startswith(f"Serving {models[0]} ") for line in process.stderr):
                raise RuntimeError("the service ended before it listened")
            yield port
        finally:
            process.terminate()


def latencies(port: int, asked: Sequence[bytes], rate: float, length: float, connections: int = CONNECTIONS) -> NDArray[Any]:
    """Return the seconds that each request took from when it was due.

    Args:
        rate: requests a second; 0: each connection sends its next one when the one before is answered.
    """
    with tempfile.NamedTemporaryFile() as file, cores(1, CLIENT_CORE):
        for request in asked:
            file.write(struct.pack("<I", len(request)) + request)
        file.flush()
        command = [str(program()), str(port), str(connections), str(rate), str(length), file.name]
        done = subprocess.run(command, capture_output=True, timeout=120 + 2 * length, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return np.frombuffer(done.stdout)


@functools.cache
def program() -> Path:
    """Compile load.cpp."""
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        raise RuntimeError("A service is measured by load.cpp, which needs a compiler of C++: set CXX.")
    source = Path(__file__).with_name("load.cpp")
    target = Path(tempfile.gettempdir()) / f"xpsql-load-{os.getuid()}-{source.stat().st_mtime_ns}"
    if not target.exists():
        subprocess.run([compiler, "-O2", "-std=c++17", source, "-o", target], check=True)
    return target
