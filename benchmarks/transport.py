"""Client and shard in processes of their own on one core: round trips beside ZeroMQ, pulls and pushes, shards.

Our round trips are typed calls after a handshake, ZeroMQ's bare messages. A shard holds random keys; a request has
distinct ones. CPU is that of all processes, the steadier figure on a shared machine.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import Figure, Run, spread
from benchmarks.process import call, cores, figures_of, installed

if TYPE_CHECKING:
    from xpsql.platform.ps.messages import Push

SECRET, HOST, TICKS = bytes(32), "127.0.0.1", os.sysconf("SC_CLK_TCK")
SIZES = {200: "1.6 kB/0.8 kB", 20_000: "160 kB/80 kB"}
REQUESTS, COST_SIZES = (10_000, 100_000), (100, 1_000, 10_000, 50_000)
EXAMPLES, KEYS_PER_BATCH = 4096, 24_000
DIMS = {"ftrl": 1, "adagrad": 16}
TARGETS = {
    **{f"ZeroMQ's time over ours: on {kind}, {size}": ">= 1" for kind in ("Unix", "TCP") for size in SIZES.values()},
}
Keys = NDArray[np.uint64]
Exchange = Callable[[Keys], NDArray[np.float32]]
VALUES = {size: np.arange(size, dtype=np.float32) for size in SIZES}


def figures(run: Run) -> Iterator[Figure]:
    with cores(1):
        yield from figures_of(round_trips, run.size(20, 1000))
        for optimizer, rows, unix in (("ftrl", 10_000_000, True), ("ftrl", 10_000_000, False), ("adagrad", 2_000_000, True)):
            yield from figures_of(pulls_and_pushes, optimizer, run.size(40_000, rows), run.size(1, 5), unix)
        rows = run.size(40_000, 2_500_000)
        yield from figures_of(costs, rows, run.size(1, 5))
        yield from figures_of(shards, rows, run.size(1, 5))


class Asked(NamedTuple):
    keys: Keys


class Answered(NamedTuple):
    values: NDArray[np.float32]


@contextmanager
def server(function: Callable[..., None], *arguments: object) -> Iterator[tuple[list[str], int]]:
    """Run a server in a process of its own; yield the words that it prints of its address, and its number."""
    with subprocess.Popen(call(function, *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split(), process.pid
        finally:
            process.terminate()


def serve_xpsql() -> None:
    from xpsql.platform.ps.transport.server import Server
    from xpsql.platform.ps.transport.wire import Handler, Method

    method = Method("ask", Asked, Answered)
    handlers = [Handler(method, lambda asked: Answered(VALUES[len(asked.keys)]))]
    with Server("benchmark", handlers, SECRET, HOST) as serving:
        print(serving.address.port, serving.address.unix, flush=True)
        sys.stdin.read()


def serve_zeromq() -> None:
    import zmq

    socket = zmq.Context().socket(zmq.REP)
    unix = f"ipc://@xpsql-bench-{os.getpid()}"  # @: a name that is no file
    socket.bind(unix)
    print(unix, f"tcp://{HOST}:{socket.bind_to_random_port(f'tcp://{HOST}')}", flush=True)
    while True:
        request = socket.recv(copy=False)
        socket.send(VALUES[len(request.buffer) // 8], copy=False)


@contextmanager
def xpsql(where: list[str], kind: str) -> Iterator[Exchange]:
    from xpsql.platform.ps.transport.connection import Connection
    from xpsql.platform.ps.transport.sockets import Address
    from xpsql.platform.ps.transport.wire import ConnectionLimits, Method

    method, address = Method("ask", Asked, Answered), Address(HOST, int(where[0]), where[1] if kind == "Unix" else "")
    connection = Connection("the server", address, SECRET, ConnectionLimits(), None)
    yield lambda keys: connection.call(method, Asked(keys), 60).values
    connection.close()


@contextmanager
def zeromq(where: list[str], kind: str) -> Iterator[Exchange]:
    import zmq

    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.connect(where[kind == "TCP"])

        def exchange(keys: Keys) -> NDArray[np.float32]:
            socket.send(keys, copy=False)
            return np.frombuffer(socket.recv(copy=False).buffer, np.float32)

        yield exchange


TRANSPORTS: dict[str, tuple[str, Callable[[], None], Callable[..., Any]]] = {
    "xpsql": ("numpy", serve_xpsql, xpsql),
    "ZeroMQ": ("zmq", serve_zeromq, zeromq),
}


def round_trips(count: int) -> Iterator[Figure]:
    """Yield the time of a round trip of uint64 keys and as many float32, and how many times longer other transports take."""
    ours: dict[str, float] = {}
    for name, (needs, serve, client) in TRANSPORTS.items():
        if not installed(needs):
            continue
        with server(serve) as (where, _):
            for kind in ("Unix", "TCP"):
                with client(where, kind) as exchange:
                    for size, written in SIZES.items():
                        taken = [trip(exchange, size, count) for _ in range(5)]
                        what, peer = f"on {kind}, {written}", "" if name == "xpsql" else name
                        yield spread(f"round trip: {name} {what}", taken, "us", peer)
                        mine = ours.setdefault(what, statistics.median(taken))
                        if peer:
                            yield Figure(f"{name}'s time over ours: {what}", statistics.median(taken) / mine, "x", peer=name)


def trip(exchange: Exchange, size: int, count: int) -> float:
    keys = np.arange(size, dtype=np.uint64)
    assert (exchange(keys) == VALUES[size]).all()
    start = time.perf_counter()
    for _ in range(count):
        exchange(keys)
    return (time.perf_counter() - start) / count * 1e6


def all_keys(rows: int) -> Keys:
    return np.random.default_rng(1).integers(0, 2**64, rows, np.uint64)


def serve_shard(optimizer: str, rows: int, number: int, num_shards: int) -> None:
    """Be a shard that has its part of the rows, until the input ends."""
    from benchmarks.checkpoints import new_shard, programs_of
    from xpsql.platform.ps._native import keep_freed_memory
    from xpsql.platform.ps.placement import shard_of
    from xpsql.platform.ps.service import shard_handlers
    from xpsql.platform.ps.transport.server import Server
    from xpsql.platform.training.compiled import prepare_jax
    from xpsql.platform.training.tasks.shard_task import KEPT_BYTES

    keep_freed_memory(KEPT_BYTES)
    prepare_jax()
    shard, keys = new_shard(programs_of(optimizer, DIMS[optimizer])), all_keys(rows)
    shard.watermarks = None
    table = shard.tables["weights"]
    for some in np.array_split(keys, max(1, rows // 100_000)):
        table.load("weights", np.ascontiguousarray(some[shard_of(some, num_shards) == number]), {}, 0)

    with Server(f"shard {number}", shard_handlers(shard), SECRET, HOST) as serving:
        print(serving.address.port, serving.address.unix, flush=True)
        sys.stdin.read()


class Served(NamedTuple):
    """Shards in processes of their own, and a client of theirs."""

    client: Any
    processes: list[int]

    def cpu(self) -> float:
        """Return the CPU seconds that this process and the shards' have used."""
        return own_cpu() + sum(map(cpu_of, self.processes))


def own_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cpu_of(process: int) -> float:
    """Return the CPU seconds of another process, in steps of a hundredth."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def served(optimizer: str, rows: int, num_shards: int = 1, unix: bool = True) -> Iterator[Served]:
    from xpsql.platform.ps.remote import RemoteClient
    from xpsql.platform.ps.transport.sockets import Address

    with ExitStack() as stack:
        said = [stack.enter_context(server(serve_shard, optimizer, rows, n, num_shards)) for n in range(num_shards)]
        addresses = [Address(HOST, int(port), name if unix else "") for (port, name), _ in said]
        client = stack.enter_context(RemoteClient(addresses, SECRET))
        yield Served(client, [process for _, process in said])


def work_of(rows: int, size: int, dim: int = 1) -> tuple[list[tuple[Keys, Push]], int]:
    """Return a few requests of distinct keys, each with its push, and the size that they are padded to."""
    from xpsql.platform.ps.compiled.ladder import rung
    from xpsql.platform.ps.messages import Push, Touched

    random, keys, padded, found = np.random.default_rng(2), all_keys(rows), rung(size), []
    gradients = np.random.default_rng(3).normal(size=(padded, dim)).astype(np.float32)
    for _ in range(8):
        some = keys[np.unique(random.integers(0, rows, size + size // 20 + 9))[:size]]
        ones = np.ones(len(some), np.uint32)
        found.append((some, Push(Touched(some, ones.astype(np.uint16), ones, ones, 0), {}, {"weights": gradients})))
    return found, padded


def pulls_and_pushes(optimizer: str, rows: int, rounds: int, unix: bool) -> Iterator[Figure]:
    """Yield keys a second of wall time and of CPU time."""
    with served(optimizer, rows, 1, unix) as shard:
        for size in (size for size in REQUESTS if size <= rows // 2):
            work, padded = work_of(rows, size, DIMS[optimizer])
            steps: dict[str, Callable[[int], object]] = {
                "pull": lambda n, w=work, p=padded: shard.client.pull(w[n][0], p),  # type: ignore[misc]
                "push": lambda n, w=work: shard.client.push(w[n][1]),  # type: ignore[misc]
            }
            for name, step in steps.items():
                count, walls, cpus = max(4, min(100, 1_500_000 // size)), [], []
                for number in range(8):
                    step(number)
                for _ in range(rounds):
                    wall, used = time.perf_counter(), shard.cpu()
                    for number in range(count):
                        step(number % 8)
                    walls.append(count * size / (time.perf_counter() - wall) / 1e6)
                    cpus.append(count * size / max(shard.cpu() - used, 1 / TICKS) / 1e6)
                kind = "Unix" if unix else "TCP"
                what = f"{optimizer}, {DIMS[optimizer]} floats, {kind}: {name} of {size // 1000}k keys"
                yield from (spread(what, walls, "M keys/s"), spread(f"{what}, a CPU second", cpus, "M keys/s"))


def costs(rows: int, rounds: int) -> Iterator[Figure]:
    """Yield what a message and a key cost the client and the shard, fitted to requests of several sizes."""
    sizes = [size for size in COST_SIZES if size <= rows // 2]
    with served("ftrl", rows) as shard:
        for name in ("pull", "push"):
            spent = []
            for size in sizes:
                work, padded = work_of(rows, size)
                count = max(64, 400_000 // size) * rounds
                for warm in (8, count):
                    own, both = own_cpu(), shard.cpu()
                    for number in range(warm):
                        keys, push = work[number % 8]
                        shard.client.pull(keys, padded) if name == "pull" else shard.client.push(push)
                    client, everything = own_cpu() - own, shard.cpu() - both
                spent.append((client / count, max(everything - client, 1e-9) / count))
            weights = np.array(spent).sum(axis=1)
            design = np.stack([np.ones(len(sizes)), np.array(sizes)], axis=1) / weights[:, None]
            for side, taken in zip(("client", "shard"), np.array(spent).T, strict=True):
                message, key = np.linalg.lstsq(design, taken / weights)[0]
                yield Figure(f"{name}: CPU of the {side}, a message", message * 1e6, "us")
                yield Figure(f"{name}: CPU of the {side}, a key", key * 1e9, "ns")


def shards(rows: int, rounds: int) -> Iterator[Figure]:
    """Yield the CPU of a pull and a push, an example, on 1, 2 and 4 shards; batches of 4096 examples have 24,000 keys."""
    work, padded = work_of(rows, min(KEYS_PER_BATCH, rows // 2))
    with ExitStack() as stack:
        parts = {n: stack.enter_context(served("ftrl", rows, n)) for n in (1, 2, 4)}
        spent: dict[int, list[float]] = {n: [] for n in parts}
        for turn in range(rounds + 1):
            for n, part in parts.items():
                used = part.cpu()
                for number in range(64):
                    part.client.pull(work[number % 8][0], padded)
                    part.client.push(work[number % 8][1])
                if turn:
                    spent[n].append((part.cpu() - used) / (64 * EXAMPLES) * 1e6)
        for n, taken in spent.items():
            yield spread(f"CPU of a pull and a push, an example: {n} shards", taken, "us")
