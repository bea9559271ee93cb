"""Measure what dense parameters of four million floats cost each of 1, 2 and 4 shards, whole on one of them, in pieces on all:
CPU and bytes a step of one worker, and of a pull that finds nothing changed. Shards are processes; all share the cores.

python -m benchmarks.dense_shards STEPS
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from xpsql.platform.ps.client import Client
    from xpsql.platform.ps.dense import DenseProgram

SIDE, WARM_UP, MOST_PIECES = 2000, 3, 64
SECRET, HOST = b"a secret of 32 bytes for figures", "127.0.0.1"


def program(cut: bool) -> DenseProgram:
    import optax

    from xpsql.platform.operators.base import DenseSpec
    from xpsql.platform.ps import pieces
    from xpsql.platform.ps.dense import DenseProgram

    pieces.MOST_PIECES = MOST_PIECES if cut else 1
    return DenseProgram((DenseSpec("kernel", (SIDE, SIDE)), DenseSpec("bias", (SIDE,))), optax.adagrad(0.01), 7)


def serve(cut: bool, number: int, num_shards: int) -> None:
    """Be a shard; print what it has cost since its input said so, when its input ends."""
    from xpsql.platform.operators.base import TableSpec
    from xpsql.platform.operators.chains import chain
    from xpsql.platform.operators.ftrl import FtrlOptions, ftrl
    from xpsql.platform.ps._native import Store, keep_freed_memory
    from xpsql.platform.ps.compiled.table_programs import Programs
    from xpsql.platform.ps.lifecycle_table import tables_of
    from xpsql.platform.ps.messages import Pulled, Push
    from xpsql.platform.ps.service import PULL, PUSH, Pull, shard_handlers
    from xpsql.platform.ps.shard import Shard
    from xpsql.platform.ps.transport.server import Server
    from xpsql.platform.ps.transport.wire import Acknowledged, Handler
    from xpsql.platform.training.compiled import prepare_jax
    from xpsql.platform.training.tasks.shard_task import KEPT_BYTES

    keep_freed_memory(KEPT_BYTES)
    prepare_jax()
    spec, moved = TableSpec("weights", 1), [0, 0]
    tables = tables_of([Programs(spec, chain(ftrl(FtrlOptions(), spec)), 7)], Store)
    shard = Shard(tables, program(cut).part(number, num_shards), str)
    pulls, dense, pushes, *others = shard_handlers(shard)

    def pull(request: Pull) -> Pulled:
        answer: Pulled = pulls.answer(request)
        moved[0] += sum(values.nbytes for values in answer.dense.values())
        return answer

    def push(request: Push) -> Acknowledged:
        moved[1] += sum(values.nbytes for values in request.dense.values())
        return pushes.answer(request)  # type: ignore[no-any-return]

    with Server(f"shard {number}", [Handler(PULL, pull), dense, Handler(PUSH, push), *others], SECRET, HOST) as server:
        print(server.address.port, server.address.unix, flush=True)
        while sys.stdin.readline():
            usage = resource.getrusage(resource.RUSAGE_SELF)
            print(usage.ru_utime + usage.ru_stime, *moved, flush=True)


def step(client: Client, made: DenseProgram, number: int) -> None:
    """Make a step of one worker."""
    from xpsql.platform.ps.messages import BatchId, Push, Touched

    keys, none = np.arange(4, dtype=np.uint64), np.zeros(4, np.uint32)
    client.pull(keys, 64)
    touched = Touched(keys, np.zeros(4, np.uint16), none, none, 0, BatchId(0, 0, 0, number), 1, 0)
    gradients = {"weights": np.zeros((64, 1), np.float32)}
    dense = {n: np.ones(piece.shape(made.specs[piece.of].shape), np.float32) for n, piece in made.pieces.items()}
    client.push(Push(touched, {"weights": none}, gradients, dense=dense))


def measured(cut: bool, num_shards: int, steps: int) -> None:
    from xpsql.platform.ps.remote import RemoteClient
    from xpsql.platform.ps.transport.sockets import Address

    commands = [
        [sys.executable, "-m", __spec__.name, "serve", str(int(cut)), str(i), str(num_shards)] for i in range(num_shards)
    ]
    shards = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for command in commands]
    made = program(cut)

    def reported() -> np.ndarray[Any, Any]:
        lines = []
        for shard in shards:
            assert shard.stdin
            assert shard.stdout
            shard.stdin.write("?\n")
            shard.stdin.flush()
            lines.append([float(word) for word in shard.stdout.readline().split()])
        return np.array(lines)

    try:
        addresses = []
        for shard in shards:
            assert shard.stdout
            port, unix = shard.stdout.readline().split()
            addresses.append(Address(HOST, int(port), unix))
        with RemoteClient(addresses, SECRET) as client:
            for number in range(WARM_UP):
                step(client, made, number)
            before, began = reported(), time.monotonic()
            for number in range(steps):
                step(client, made, number)
            seconds, spent = (time.monotonic() - began) / steps, (reported() - before) / steps
            client.pull(np.arange(4, dtype=np.uint64), 64)
            before = reported()
            for _ in range(steps):
                client.pull(np.arange(4, dtype=np.uint64), 64)
            idle = (reported() - before) / steps
    finally:
        for shard in shards:
            assert shard.stdin
            shard.stdin.close()
            shard.wait(60)
    print(
        f"{num_shards} shards, {'pieces' if cut else 'whole '}: CPU ms a step {(1e3 * spent[:, 0]).round(1).tolist()}, MB out "
        f"{(spent[:, 1] / 1e6).round(1).tolist()}, MB in {(spent[:, 2] / 1e6).round(1).tolist()}, {1e3 * seconds:.0f} ms; "
        f"pull of nothing new: CPU ms {(1e3 * idle[:, 0]).round(2).tolist()}, MB out {(idle[:, 1] / 1e6).round(1).tolist()}",
        flush=True,
    )


def main() -> None:
    if sys.argv[1] == "serve":
        serve(sys.argv[2] == "1", int(sys.argv[3]), int(sys.argv[4]))
        return
    for cut in (False, True):
        for num_shards in (1, 2, 4):
            measured(cut, num_shards, int(sys.argv[1]))


if __name__ == "__main__":
    main()
