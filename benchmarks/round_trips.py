"""Measure round trips of one request at a time: client and server in two processes on one core, microseconds.

A request carries uint64 keys, its answer as many float32. xpsql's are typed calls after a handshake; the others' are
bare messages: ZeroMQ's REQ and REP sockets, over ipc, which are Unix sockets, and over TCP, a stream of Arrow Flight's
DoExchange, and MPI's send and receive.

    python -m benchmarks.round_trips xpsql | zeromq | flight | mpi
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SIZES = (200, 20_000)
ROUNDS = 5
SECRET = bytes(32)
HOST = "127.0.0.1"

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]
Exchange = Callable[[Keys], Floats]


class Asked(NamedTuple):
    keys: Keys


class Answered(NamedTuple):
    values: Floats


VALUES = {size: np.arange(size, dtype=np.float32) for size in SIZES}


@contextmanager
def served(name: str) -> Iterator[str]:
    """Run the server of a transport in a process of its own, and yield what it says of its address."""
    command = [sys.executable, "-m", "benchmarks.round_trips", "--serve", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def xpsql_call() -> Any:
    from xpsql.platform.ps.transport.wire import Method

    return Method("ask", Asked, Answered)


def serve_xpsql() -> None:
    from xpsql.platform.ps.transport.server import Server
    from xpsql.platform.ps.transport.wire import Handler

    def answer(asked: Asked) -> Answered:
        return Answered(VALUES[len(asked.keys)])

    with Server("benchmark", [Handler(xpsql_call(), answer)], SECRET, HOST) as server:
        print(server.address.port, server.address.unix, flush=True)
        sys.stdin.read()


@contextmanager
def xpsql(where: str, unix: bool) -> Iterator[Exchange]:
    from xpsql.platform.ps.transport.connection import Connection
    from xpsql.platform.ps.transport.sockets import Address
    from xpsql.platform.ps.transport.wire import ConnectionLimits

    port, name = where.split()
    client = Connection("the server", Address(HOST, int(port), name if unix else ""), SECRET, ConnectionLimits(), None)
    call = xpsql_call()
    yield lambda keys: client.call(call, Asked(keys), 60).values
    client.close()


def serve_zeromq() -> None:
    import zmq

    socket = zmq.Context().socket(zmq.REP)
    unix = f"ipc://@xpsql-bench-{os.getpid()}"  # @: a name that is no file
    socket.bind(unix)
    print(f"tcp://{HOST}:{socket.bind_to_random_port(f'tcp://{HOST}')}", unix, flush=True)
    while True:
        request = socket.recv(copy=False)
        socket.send(VALUES[len(request.buffer) // 8], copy=False)


@contextmanager
def zeromq(where: str, unix: bool) -> Iterator[Exchange]:
    import zmq

    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.connect(where.split()[unix])

        def exchange(keys: Keys) -> Floats:
            socket.send(keys, copy=False)
            return np.frombuffer(socket.recv(copy=False).buffer, np.float32)

        yield exchange


def serve_flight() -> None:
    import pyarrow as pa
    from pyarrow import flight

    schema = pa.schema([("values", pa.float32())])
    batches = {size: pa.record_batch([pa.array(values)], schema=schema) for size, values in VALUES.items()}

    class Answers(flight.FlightServerBase):  # type: ignore[misc]
        def do_exchange(self, context: object, descriptor: object, reader: Any, writer: Any) -> None:
            writer.begin(schema)
            for chunk in reader:
                writer.write_batch(batches[chunk.data.num_rows])

    server = Answers(f"grpc://{HOST}:0")
    print(server.port, flush=True)
    server.serve()


@contextmanager
def arrow_flight(where: str) -> Iterator[Exchange]:
    import pyarrow as pa
    from pyarrow import flight

    schema = pa.schema([("keys", pa.uint64())])
    with flight.connect(f"grpc://{HOST}:{where}") as client:
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(b"ask"))
        writer.begin(schema)

        def exchange(keys: Keys) -> Floats:
            writer.write_batch(pa.record_batch([pa.array(keys)], schema=schema))
            values: Floats = reader.read_chunk().data.column(0).to_numpy()
            return values

        yield exchange
        writer.done_writing()
        writer.close()


def run_mpi() -> None:
    """Both ranks of `mpirun -n 2`: rank 1 asks and prints, rank 0 answers."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.rank == 0:
        status = MPI.Status()
        buffer = np.empty(max(SIZES), np.uint64)
        while True:
            world.Recv(buffer, source=1, status=status)
            count = status.Get_count(MPI.UINT64_T)
            if count == 0:
                return
            world.Send(VALUES[count], dest=1)

    def exchange(keys: Keys) -> Floats:
        world.Send(keys, dest=0)
        values = np.empty(len(keys), np.float32)
        world.Recv(values, source=0)
        return values

    report("MPI", exchange)
    world.Send(np.empty(0, np.uint64), dest=0)


def microseconds(exchange: Exchange, size: int) -> float:
    """Return the median over rounds of the time of a round trip."""
    keys = np.arange(size, dtype=np.uint64)
    assert (exchange(keys) == VALUES[size]).all()
    count = 1000 if size <= 1000 else 300
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(count):
            exchange(keys)
        times.append((time.perf_counter() - start) / count)
    return statistics.median(times) * 1e6


def report(name: str, exchange: Exchange) -> None:
    for size in SIZES:
        print(f"{microseconds(exchange, size):.1f} us; {name}, {size * 8 / 1000:g} kB/{size * 4 / 1000:g} kB", flush=True)


SERVERS = {"xpsql": serve_xpsql, "zeromq": serve_zeromq, "flight": serve_flight}


def main() -> None:
    """Pin this process and its server to one core and print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help="be the server")
    parser.add_argument("name", choices=["xpsql", "zeromq", "flight", "mpi"])
    given = parser.parse_args()
    if given.serve:
        SERVERS[given.name]()
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if given.name == "mpi":
        run_mpi()
        return
    with served(given.name) as where:
        if given.name == "flight":
            with arrow_flight(where) as exchange:
                report("Arrow Flight on TCP", exchange)
            return
        name, connected = {"xpsql": ("xpsql", xpsql), "zeromq": ("ZeroMQ", zeromq)}[given.name]
        for kind in ("Unix", "TCP"):
            with connected(where, kind == "Unix") as exchange:
                report(f"{name} on {kind}", exchange)


if __name__ == "__main__":
    main()
