"""Measure pulls from and pushes to shards behind servers: client and servers in processes of their own on one core.

A shard holds random keys: `ftrl` keeps 2 floats for a weight, `adagrad` 32 for a vector of 16. A request has distinct keys,
drawn uniformly. Keys per second count the wall time of everything: the client, the kernel, the server, the store, the
mathematics. CPU is user and system time of all processes; on a shared machine it is the steadier figure.

    python -m benchmarks.transport --rows 10000000 --vectors 2000000
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from xpsql.platform.ps.lifecycle_table import tables_of
    from xpsql.platform.ps.messages import Push
    from xpsql.platform.ps.remote import RemoteClient
    from xpsql.platform.ps.shard import Shard
    from xpsql.platform.ps.table import Table
    from xpsql.platform.ps.transport.connection import Connection
    from xpsql.platform.ps.transport.sockets import Address
    from xpsql.platform.ps.transport.wire import Method

HOST = "127.0.0.1"
SECRET = bytes(32)
REQUESTS = (10_000, 100_000)
COST_SIZES = (100, 1_000, 10_000, 50_000)
EXAMPLES, KEYS_PER_BATCH = 4096, 24_000
CONNECTIONS = 16
DIMS = {"ftrl": 1, "adagrad": 16}
TICKS = os.sysconf("SC_CLK_TCK")

Keys = NDArray[np.uint64]


class Line(NamedTuple):
    """A figure: its name, value and unit."""

    name: str
    value: float
    unit: str


def all_keys(rows: int) -> Keys:
    return np.random.default_rng(1).integers(0, 2**64, rows, np.uint64)


def new_shard(optimizer: str, number: int, num_shards: int) -> Shard:
    from xpsql.platform.operators import OPERATORS
    from xpsql.platform.operators.base import TableSpec
    from xpsql.platform.operators.chains import chain
    from xpsql.platform.ps._native import Store
    from xpsql.platform.ps.compiled.table_programs import Programs
    from xpsql.platform.ps.dense import DenseProgram
    from xpsql.platform.ps.shard import Shard

    spec = TableSpec("weights", DIMS[optimizer])
    part = next(part for part in OPERATORS if part.name == optimizer)
    programs = Programs(spec, chain(part.make(part.options(), spec)), 7)
    return Shard(tables_of([programs], Store), DenseProgram((), None, 7).part(number, num_shards), str)


def serve(optimizer: str, rows: int, number: int, num_shards: int) -> None:
    """Be a shard that has its part of the rows, until the input ends."""
    from xpsql.platform.ps._native import keep_freed_memory
    from xpsql.platform.ps.placement import shard_of
    from xpsql.platform.ps.service import shard_handlers
    from xpsql.platform.ps.transport.server import Server
    from xpsql.platform.ps.transport.wire import Handler
    from xpsql.platform.training.compiled import prepare_jax
    from xpsql.platform.training.tasks.shard_task import KEPT_BYTES

    keep_freed_memory(KEPT_BYTES)
    prepare_jax()
    shard, keys = new_shard(optimizer, number, num_shards), all_keys(rows)
    table = shard.tables["weights"]
    for some in np.array_split(keys, max(1, rows // 100_000)):
        table.load("weights", np.ascontiguousarray(some[shard_of(some, num_shards) == number]), {}, 0)
    handlers = [*shard_handlers(shard), Handler(counted_call(), lambda _: Counted(counted(table)))]
    with Server(f"shard {number}", handlers, SECRET, HOST) as server:
        print(server.address.port, server.address.unix, flush=True)
        sys.stdin.read()


class Count(NamedTuple):
    """A request for how many occurrences a shard has counted."""


class Counted(NamedTuple):
    count: int


def counted_call() -> Method[Count, Counted]:
    from xpsql.platform.ps.transport.wire import Method

    return Method("counted", Count, Counted)


def counted(table: Table) -> int:
    from xpsql.platform.ps.table import NUMBER

    _, rows = table.store.keys()
    counts = np.empty(len(rows), np.uint32)
    table.store.gather(rows, [NUMBER["count"]], [counts])
    return int(counts.sum(dtype=np.int64))


class Served(NamedTuple):
    """Shards in processes of their own."""

    addresses: list[Address]
    processes: list[int]

    def cpu_seconds(self) -> float:
        """CPU that this process and the shards' have used."""
        return own_cpu_seconds() + sum(map(cpu_seconds, self.processes))


def own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cpu_seconds(process: int) -> float:
    """Return the CPU of another process, in steps of a hundredth."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def served(optimizer: str, rows: int, num_shards: int, unix: bool) -> Iterator[Served]:
    from xpsql.platform.ps.transport.sockets import Address

    with ExitStack() as stack:
        processes = [start(stack, optimizer, rows, number, num_shards) for number in range(num_shards)]
        said = [process.stdout.readline().split() for process in processes if process.stdout]
        addresses = [Address(HOST, int(port), name if unix else "") for port, name in said]
        yield Served(addresses, [process.pid for process in processes])


def start(stack: ExitStack, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.transport", "--serve", *map(str, arguments)]
    process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    stack.callback(process.terminate)
    return process


def requests(keys: Keys, size: int) -> list[Keys]:
    """Return a few requests of distinct keys."""
    generator = np.random.default_rng(2)
    return [keys[np.unique(generator.integers(0, len(keys), size + size // 20 + 9))[:size]] for _ in range(8)]


def push_of(keys: Keys, dim: int, size: int) -> Push:
    """Return what a worker pushes for chains that do not ask how often a row has been updated, as those here."""
    from xpsql.platform.ps.messages import Push, Touched

    ones = np.ones(len(keys), np.uint32)
    touched = Touched(keys, np.ones(len(keys), np.uint16), ones, ones, 0)
    gradients = np.random.default_rng(3).normal(size=(size, dim)).astype(np.float32)
    return Push(touched, {}, {"weights": gradients})


def rates(name: str, served: Served, size: int, step: Callable[[int], object], rounds: int) -> Iterator[Line]:
    """Yield keys per second of wall time and of CPU time."""
    count = max(4, min(100, 1_500_000 // size))
    for number in range(8):
        step(number)
    walls, cpus = [], []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), served.cpu_seconds()
        for number in range(count):
            step(number % 8)
        walls.append(count * size / (time.perf_counter() - wall))
        cpus.append(count * size / (served.cpu_seconds() - cpu))
    yield Line(f"{name}, {size // 1000}k keys", statistics.median(walls) / 1e6, "M keys/s")
    yield Line(f"{name}, {size // 1000}k keys, per CPU second", statistics.median(cpus) / 1e6, "M keys/s")


def one_shard(optimizer: str, rows: int, rounds: int, unix: bool) -> Iterator[Line]:
    """Yield the rates of pulls and pushes."""
    from xpsql.platform.ps.compiled.ladder import rung
    from xpsql.platform.ps.remote import RemoteClient

    keys, dim = all_keys(rows), DIMS[optimizer]
    with served(optimizer, rows, 1, unix) as shards, RemoteClient(shards.addresses, SECRET) as client:
        for size in REQUESTS:
            if size > rows // 2:
                continue
            work, padded = requests(keys, size), rung(size)
            pushes = [push_of(some, dim, padded) for some in work]
            kind = f"{optimizer}, {dim} floats, {'Unix' if unix else 'TCP'}"
            yield from rates(f"pull, {kind}", shards, size, lambda n, w=work, p=padded: client.pull(w[n], p), rounds)  # type: ignore[misc]
            yield from rates(f"push, {kind}", shards, size, lambda n, p=pushes: client.push(p[n]), rounds)  # type: ignore[misc]


def costs(rows: int, rounds: int) -> Iterator[Line]:
    """Yield what a message and a key cost the client and the shard, fitted to requests of several sizes."""
    from xpsql.platform.ps.compiled.ladder import rung
    from xpsql.platform.ps.remote import RemoteClient

    sizes = [size for size in COST_SIZES if size <= rows // 2]
    with served("ftrl", rows, 1, True) as shards, RemoteClient(shards.addresses, SECRET) as client:
        work = {size: [(keys, push_of(keys, 1, rung(size))) for keys in requests(all_keys(rows), size)] for size in sizes}
        steps: dict[str, Callable[[Keys, Push], object]] = {
            "pull": lambda keys, push: client.pull(keys, len(push.gradients["weights"])),
            "push": lambda _, push: client.push(push),
        }
        for name, step in steps.items():
            spent = np.array([spent_by(shards, work[size], step, max(64, 400_000 // size), rounds) for size in sizes])
            design = np.stack([np.ones(len(sizes)), np.array(sizes)], axis=1) / spent.sum(axis=1, keepdims=True)
            for side, seconds in zip(("client", "shard"), spent.T, strict=True):
                message, key = np.linalg.lstsq(design, seconds / spent.sum(axis=1))[0]
                yield Line(f"{name}: CPU of the {side} per message", message * 1e6, "us")
                yield Line(f"{name}: CPU of the {side} per key", key * 1e9, "ns")


def spent_by(
    shards: Served, work: list[tuple[Keys, Push]], step: Callable[[Keys, Push], object], count: int, rounds: int
) -> tuple[float, float]:
    """Return the CPU seconds of a request, of the client and of the shard."""
    for keys, push in work:
        step(keys, push)
    own, all_of_them = own_cpu_seconds(), shards.cpu_seconds()
    for number in range(count * rounds):
        step(*work[number % len(work)])
    client = (own_cpu_seconds() - own) / (count * rounds)
    return client, (shards.cpu_seconds() - all_of_them) / (count * rounds) - client


def scaling(rows: int, rounds: int) -> Iterator[Line]:
    """Yield the CPU of a pull and a push per example, on 1, 2 and 4 shards; batches of 4096 examples have 24,000 keys."""
    from xpsql.platform.ps.compiled.ladder import rung
    from xpsql.platform.ps.remote import RemoteClient

    keys = all_keys(rows)
    size = min(KEYS_PER_BATCH, rows // 2)
    work, padded = requests(keys, size), rung(size)
    pushes = [push_of(some, 1, padded) for some in work]
    with ExitStack() as stack:
        parts = {n: stack.enter_context(served("ftrl", rows, n, True)) for n in (1, 2, 4)}
        clients = {n: stack.enter_context(RemoteClient(part.addresses, SECRET)) for n, part in parts.items()}
        spent: dict[int, list[float]] = {n: [] for n in parts}
        for turn in range(rounds + 1):
            for n, client in clients.items():
                cpu = parts[n].cpu_seconds()
                for number in range(64):
                    client.pull(work[number % 8], padded)
                    client.push(pushes[number % 8])
                if turn:
                    spent[n].append((parts[n].cpu_seconds() - cpu) / (64 * EXAMPLES))
        for n, seconds in spent.items():
            yield Line(f"pull and push, {n} shards: CPU per example", statistics.median(seconds) * 1e6, "us")


def many_connections(rows: int) -> Iterator[Line]:
    """Yield the rate of 16 connections at once, and how many counts they lost."""
    from xpsql.platform.ps.remote import RemoteClient

    keys = all_keys(rows)
    size = min(2000, rows // 2)
    with served("ftrl", rows, 1, True) as shards, ExitStack() as stack:
        clients = [stack.enter_context(RemoteClient(shards.addresses, SECRET)) for _ in range(CONNECTIONS)]
        pushes = [push_of(some, 1, size) for some in requests(keys, size)]

        def work(client: RemoteClient) -> None:
            for push in pushes * 5:
                client.pull(push.touched.keys, size)
                client.push(push)

        work(clients[0])  # compiles
        wall = time.perf_counter()
        threads = [threading.Thread(target=work, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - wall
        of_each = 5 * sum(len(push.touched.keys) for push in pushes)
        sent = CONNECTIONS * of_each
        yield Line(f"{CONNECTIONS} connections, pull and push, {size} keys", sent / seconds / 1e6, "M keys/s")
        with connected(shards.addresses[0]) as asking:
            counts = asking.call(counted_call(), Count(), 60).count
        yield Line(f"{CONNECTIONS} connections: keys lost", sent + of_each - counts, "keys")


@contextmanager
def connected(address: Address) -> Iterator[Connection]:
    from xpsql.platform.ps.transport.connection import Connection
    from xpsql.platform.ps.transport.wire import ConnectionLimits

    connection = Connection("the shard", address, SECRET, ConnectionLimits(), None)
    try:
        yield connection
    finally:
        connection.close()


def lines(given: argparse.Namespace) -> Iterator[Line]:
    for unix in (True, False):
        yield from one_shard("ftrl", given.rows, given.rounds, unix)
    yield from one_shard("adagrad", given.vectors, given.rounds, True)
    yield from costs(given.rows, given.rounds)
    yield from scaling(given.rows // 4, given.rounds)
    yield from many_connections(given.rows // 4)


def main(arguments: Sequence[str] | None = None) -> None:
    """Pin this process and those it starts to one core and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", nargs=4, metavar=("OPTIMIZER", "ROWS", "NUMBER", "SHARDS"), help="be a shard")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of one float")
    parser.add_argument("--vectors", type=int, default=2_000_000, help="rows of 16 floats")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    if given.serve:
        serve(given.serve[0], *map(int, given.serve[1:]))
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for line in lines(given):
        print(f"{line.value:.4g} {line.unit}; {line.name}", flush=True)


if __name__ == "__main__":
    main()
